"""The process beside a ladder: it sets a pool back where the process that asked for it dies.

`python -m innolab.mysql.guard`. It reads one line of JSON, says that it is ready, and waits on its
standard input. The end of that without a word is the death of the other.
"""

import contextlib
import json
import signal
import sys

from innolab.base.errors import InnolabError
from innolab.base.units import bytes_text
from innolab.mysql.resizing import DONE, READY, set_back
from innolab.mysql.target import Target


def main() -> int:
    """Wait, and set the pool back where nobody else will; 0 where it is as it was."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    asked = json.loads(sys.stdin.readline())
    target, size_bytes = Target(**asked["target"]), int(asked["size_bytes"])
    # That it can reach the server is known before anything is changed.
    try:
        target.connect().close()
    except InnolabError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    print(READY, flush=True)
    if sys.stdin.readline().strip() == DONE:
        return 0
    # Else the other died, or could not do it: a second attempt harms nobody.
    is_back = set_back(target, size_bytes)
    said = "is" if is_back else "could not be set"
    # The terminal may have gone too.
    with contextlib.suppress(OSError):
        print(f"innolab has died. The pool {said} {bytes_text(size_bytes)} again.", file=sys.stderr)
    return 0 if is_back else 1


if __name__ == "__main__":
    sys.exit(main())
