"""Simulated caches: plain LRU, and the list of InnoDB's buffer pool with its midpoint.

Written out, because no kept simulator that we found has InnoDB's list. libCacheSim 0.3.5 (PyPI:
libcachesim) has SLRU, which is near to it, but its Python class lets one choose neither the sizes
of the segments nor a time before promotion, it has no quarter rule, and its package carries
XGBoost and LightGBM; by its plugins one would write this file again. cachetools 8.0 has LRU, LFU,
FIFO and the like, no segments.

The rules are those of MySQL 8.0, storage/innobase/include/buf0buf.ic (buf_page_peek_if_too_old,
buf_page_peek_if_young) and buf/buf0lru.cc:

- The oldest 3/8 of the list are the old sublist. A page that is read enters at its head; the page
  at its tail is evicted.
- A hit on an old page moves it to the head of the list if its first access is at least
  innodb_old_blocks_time ago.
- A hit on a young page moves it there only if more pages than a quarter of the young sublist have
  been evicted since it was last put there.
- Nothing moves before the first eviction.

Left out: the tolerance of 20 pages around the midpoint, several instances, read-ahead, dirty pages
(which are not evicted before they are written), and that time passes while a page is read.
Time is counted in accesses.
"""

from collections import OrderedDict
from collections.abc import Iterable


def lru_misses(accesses: Iterable[int], size: int) -> list[bool]:
    """Return of every access whether a least-recently-used cache of `size` pages misses it."""
    pages: OrderedDict[int, None] = OrderedDict()
    missed = []
    for page in accesses:
        hit = page in pages
        missed.append(not hit)
        if hit:
            pages.move_to_end(page)
            continue
        if len(pages) == size:
            pages.popitem(last=False)
        pages[page] = None
    return missed


def midpoint_misses(accesses: Iterable[int], size: int, old_blocks_time: int) -> list[bool]:
    """Return of every access whether a buffer pool of `size` pages misses it."""
    return midpoint_events(accesses, size, old_blocks_time)[0]


def midpoint_events(
    accesses: Iterable[int], size: int, old_blocks_time: int
) -> tuple[list[bool], list[bool]]:
    """Return of every access whether a pool of `size` pages misses it, and whether it is promoted.

    A page is promoted from the old part to the young one, which InnoDB counts as made young.
    `old_blocks_time` is innodb_old_blocks_time in accesses; 0 is InnoDB's setting 0, at which the
    quarter rule holds for old pages too.
    """
    # The last item of each is its head. Old pages carry the time of their first access, young ones
    # that and the number of evictions when they were last put at the head.
    young: OrderedDict[int, tuple[int, int]] = OrderedDict()
    old: OrderedDict[int, tuple[int, int]] = OrderedDict()
    most_old = max(size * 3 // 8, 1)
    quarter = (size - most_old) // 4
    evictions = 0
    missed, promoted = [], []

    def balance() -> None:
        wanted = min(most_old, max((len(young) + len(old)) * 3 // 8, 1))
        while len(old) > wanted:
            page, state = old.popitem()
            young[page] = state
            young.move_to_end(page, last=False)
        while len(old) < wanted:
            page, state = young.popitem(last=False)
            old[page] = state

    for now, page in enumerate(accesses):
        state = old.get(page) or young.get(page)
        missed.append(state is None)
        promoted.append(False)
        if state is None:
            if len(young) + len(old) == size:
                old.popitem(last=False)
                evictions += 1
            # InnoDB leaves the count of a page that enters at the midpoint at zero.
            old[page] = (now, 0)
            balance()
        elif evictions and (
            now - state[0] >= old_blocks_time
            if old_blocks_time and page in old
            else evictions >= state[1] + quarter
        ):
            promoted[-1] = old.pop(page, None) is not None
            young[page] = (state[0], evictions)
            young.move_to_end(page)
            balance()
    return missed, promoted
