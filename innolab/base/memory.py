"""A bound on the memory of this process, so that a hostile file ends in a sentence."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from innolab.base.errors import InputError

# More than twice what the largest reference report takes, its pictures drawn again.
MOST_BYTES = 4 * 1024**3
# Private memory that can be written. That of all addresses counts what is reserved and never used.
_LIMIT = resource.RLIMIT_DATA


@contextmanager
def bounded(what: str, most_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Let a block take so much memory more than the process has; afterwards all is as before.

    Processes that it starts have the bound too.

    Raises
    ------
    InputError
        Where the block needs more; says of what.
    """
    before, hard = resource.getrlimit(_LIMIT)
    bounds = [bound for bound in (before, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(_LIMIT, (min([_used_bytes() + most_bytes, *bounds]), hard))
    try:
        yield
    except MemoryError:
        raise InputError(
            f"{what} takes more than {most_bytes / 1024**3:.3g} GiB of memory, which is far above "
            "what a real one takes: it was made to fill the memory, or is damaged."
        ) from None
    finally:
        resource.setrlimit(_LIMIT, (before, hard))


def _used_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmData:")[2].split()[0]) * 1024
