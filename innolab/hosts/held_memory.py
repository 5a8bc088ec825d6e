"""Memory that is really there: touched before cold work, given back as fast as the work takes it.

A hypervisor may take back what its guest leaves free (free page reporting). Each page of it that
is touched again costs a fault in the hypervisor, which the guest sees as its own kernel's work:
cold passes pay for it, the more the larger the pool, so that a large pool passes for a slow one.
Touching the memory beforehand alone does not help where free memory is taken back within seconds,
before a server has started and used it. So it is held, and released in step with its use.
"""

import contextlib
import mmap
import threading
from collections.abc import Iterator

from innolab.hosts import observe
from innolab.hosts.local import HERE

CHUNK_BYTES = 32 * 1024**2
# Of what is available: servers, loads and the page cache need the rest at once.
_MOST_OF_AVAILABLE = 0.7
# How much of what is released may be unused, and how often that is looked at. A scan from the page
# cache into a pool takes 2 GB/s at most, so 40 MB in that time.
_LEAD_BYTES, _PERIOD_S = 4 * CHUNK_BYTES, 0.02


class Memory:
    """Memory of this machine that this process holds, so that nobody takes it from the guest."""

    def __init__(self) -> None:
        self._chunks: list[mmap.mmap] = []

    @property
    def held_bytes(self) -> int:
        """Return how much is held now."""
        return CHUNK_BYTES * len(self._chunks)

    def hold(self, wanted_bytes: int) -> int:
        """Touch and hold memory up to what is wanted, and return how much is held.

        Less than wanted where the machine has less: never more than 70 % of what is available.
        """
        most = (observe.memory_bytes(HERE)["available"] + self.held_bytes) * _MOST_OF_AVAILABLE
        while self.held_bytes + CHUNK_BYTES <= min(wanted_bytes + CHUNK_BYTES - 1, most):
            self._chunks.append(_touched())
        return self.held_bytes

    def release(self) -> None:
        """Give back all that is held."""
        while self._chunks:
            self._chunks.pop().close()

    @contextlib.contextmanager
    def yielding(self) -> Iterator[None]:
        """Give memory back while the block runs, as fast as the machine's free memory is used."""
        stop = threading.Event()
        thread = threading.Thread(target=self._yield_until, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _yield_until(self, stop: threading.Event) -> None:
        free_bytes, released = _free_bytes(), 0
        while self._chunks:
            used = free_bytes + released - _free_bytes()
            while self._chunks and released < used + _LEAD_BYTES:
                self._chunks.pop().close()
                released += CHUNK_BYTES
            if stop.wait(_PERIOD_S):
                return


def _touched() -> mmap.mmap:
    """Return new memory of which every page was written to."""
    chunk = mmap.mmap(-1, CHUNK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # A kernel without huge pages touches small ones.
        chunk.madvise(mmap.MADV_HUGEPAGE)
    chunk[:: mmap.PAGESIZE] = b"\1" * (CHUNK_BYTES // mmap.PAGESIZE)
    return chunk


def _free_bytes() -> int:
    return observe.memory_bytes(HERE)["free"]
