"""Hold the right to measure on this host until killed: what each host of a topology runs."""

import signal
import sys

from innolab.base.errors import InputError
from innolab.hosts import machine

HELD = "held"


def main() -> int:
    """Say HELD and wait; say why not where another process holds it."""
    try:
        with machine.measuring_alone():
            print(HELD, flush=True)
            signal.pause()
    except InputError as error:
        print(error, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
