"""The orders of trials: each block draws its own, balanced in who follows whom."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
_DRAWN = 20


def orders(
    items: Sequence[T],
    name: Callable[[T], str],
    draw: random.Random,
    plot: Callable[[T], Hashable] | None = None,
) -> Iterator[list[T]]:
    """Yield an order for each block, without end.

    Of some that are drawn, each is the one that least repeats who followed whom in those before:
    prevents that an arm runs mostly after one that leaves the host in a state of its own.

    Parameters
    ----------
    name : what of an item the next one may depend on
    plot : the level of a factor that is costly to change; items of one level stay together, and
        levels come in the order of their first item, so that they are shuffled too
    """
    followed: Counter[tuple[str, str]] = Counter()

    def repeated(order: Sequence[T]) -> int:
        return sum(followed[pair] for pair in itertools.pairwise(map(name, order)))

    while True:
        drawn = [_together(draw.sample(items, len(items)), plot) for _ in range(_DRAWN)]
        order = min(drawn, key=repeated)
        followed.update(itertools.pairwise(map(name, order)))
        yield order


def _together(shuffled: list[T], plot: Callable[[T], Hashable] | None) -> list[T]:
    if plot is None:
        return shuffled
    levels = list(dict.fromkeys(map(plot, shuffled)))
    return sorted(shuffled, key=lambda item: levels.index(plot(item)))
