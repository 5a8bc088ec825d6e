"""The process next to a ladder: it sets a pool back if the process that asked for it cannot.

`python -P -m innolab.sizing.watchdog`. It reads one line of JSON, says that it is ready, and waits
for signs of life on its standard input. The end of that without a word is the death of the other,
and a long silence is as good as that: a process that is stopped sets nothing back.
"""

import contextlib
import json
import os
import select
import signal
import sys

from innolab.base.errors import InnolabError
from innolab.base.units import bytes_text
from innolab.sizing.resizing import DONE, FAILED, READY, set_back, standby
from innolab.sizing.target import Target

# A ladder gives a sign of life with each sample, four a second, and ends where one takes 10 s.
_SILENT_S = 60.0


def main() -> int:
    """Wait, and set the pool back if nobody else will; 0 if it is as it was."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    line = sys.stdin.readline()
    if not line:
        return 0
    asked = json.loads(line)
    target, size_bytes = Target(**asked["target"]), int(asked["size_bytes"])
    # Reached before anything is changed: a server in distress may have no connection left.
    try:
        connection = standby(target)
    except InnolabError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    try:
        os.write(sys.stdout.fileno(), f"{READY}\n".encode())
    except BrokenPipeError:
        return 0
    word = last_word(sys.stdin.fileno(), _SILENT_S)
    if word == DONE:
        return 0
    is_back = set_back(target, size_bytes, connection)
    # The one that lives says itself what became of it; and the terminal may have gone too.
    if word != FAILED:
        with contextlib.suppress(OSError):
            what = "is silent" if word is None else "has died"
            size = f"{'is' if is_back else 'could not be set'} {bytes_text(size_bytes)}"
            print(f"innolab {what}. The pool {size} again.", file=sys.stderr)
    return 0 if is_back else 1


def last_word(file: int, silent_s: float) -> str | None:
    """Wait while lines come; return DONE or FAILED, "" where they end, None where none comes.

    Parameters
    ----------
    file : the number of what is read, without a buffer that could keep lines from `select`
    """
    while select.select([file], [], [], silent_s)[0]:
        words = os.read(file, 4096).decode().split()
        if not words:
            return ""
        if words[-1] in (DONE, FAILED):
            return words[-1]
    return None


if __name__ == "__main__":
    sys.exit(main())
