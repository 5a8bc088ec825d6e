"""The model behind `innolab size` against simulated pools, and what it does with poor numbers."""

import math
from functools import cache

import numpy as np
import pytest
from midpoint import midpoint_events

from innolab.analysis import buying, queueing
from innolab.analysis.stats import Interval
from innolab.sizing import lru_model, pool_sizes
from innolab.sizing.lru_model import Law
from innolab.sizing.pool_sizes import PoolList, PoolSizePoint
from innolab.sizing.throughput_model import ServerPace

PAGES, ACCESSES, WARM_UP = 3000, 240_000, 90_000
# How many accesses pass before a hit counts, and how many a simulated second has.
BLOCKED, PER_S = 60, 6000
WORKLOADS = ("uniform", "zipf", "hot set")


def _shares(workload: str) -> np.ndarray:
    if workload == "zipf":
        weights = np.arange(1, PAGES + 1) ** -0.8
    elif workload == "hot set":
        weights = np.where(np.arange(PAGES) < PAGES // 10, 30.0, 1.0)
    else:
        weights = np.ones(PAGES)
    return weights / weights.sum()


@cache
def _simulated(workload: str, x_ratio: float) -> tuple[float, float]:
    """Return misses and promotions as shares of accesses, after a warm-up."""
    draw = np.random.default_rng(3)
    accesses = draw.choice(PAGES, size=ACCESSES, p=_shares(workload)).tolist()
    missed, promoted = midpoint_events(accesses, round(x_ratio * PAGES), BLOCKED)
    return float(np.mean(missed[WARM_UP:])), float(np.mean(promoted[WARM_UP:]))


def _law(workload: str) -> Law:
    shares = _shares(workload)
    return Law(np.full(PAGES, 1 / PAGES), shares * PAGES)


def _point(workload: str, x_ratio: float, **changes: float) -> PoolSizePoint:
    """Return what counters would show of a simulated pool: twenty accesses a statement."""
    missed, promoted = _simulated(workload, x_ratio)
    seconds = ACCESSES / PER_S
    numbers = {
        "pool_bytes": round(x_ratio * PAGES) * 16384,
        "pages": x_ratio * PAGES,
        "seconds": seconds,
        "statements": ACCESSES / 20,
        "requests": 3.0 * ACCESSES,
        "reads": missed * ACCESSES,
        "promoted": promoted * ACCESSES,
        **changes,
    }
    return PoolSizePoint(**numbers)  # type: ignore[arg-type]


LIST = PoolList(PAGES, old_blocks_s=BLOCKED / PER_S)


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("x_ratio", [0.25, 0.5, 0.8])
def test_the_list_agrees_with_a_simulated_one(workload: str, x_ratio: float) -> None:
    misses, promoted = _simulated(workload, x_ratio)
    found = lru_model.steady(_law(workload), x_ratio, blocked=BLOCKED / PAGES)
    assert found.misses == pytest.approx(misses, rel=0.04)
    assert found.promoted == pytest.approx(promoted, rel=0.1)


def test_time_in_which_no_hit_counts_is_the_same_in_misses() -> None:
    law = lru_model.zipf(0.8, 10_000)
    by_time = lru_model.steady(law, 0.4, blocked=0.02)
    by_misses = lru_model.steady(law, 0.4, blocked_misses=0.02 * by_time.misses)
    assert by_misses.misses == pytest.approx(by_time.misses, rel=1e-4)
    assert by_misses.promoted == pytest.approx(by_time.promoted, rel=1e-4)


def test_a_list_that_never_promotes_has_no_steady_state() -> None:
    with pytest.raises(ValueError, match="no steady state"):
        lru_model.steady(lru_model.zipf(0.8, 10_000), 0.3, blocked=100.0)
    with pytest.raises(ValueError, match="cannot be"):
        lru_model.steady(lru_model.uniform(), 0.0)


@pytest.mark.parametrize(
    "law",
    [
        lru_model.zipf(0.6, 10_000),
        lru_model.zipf(1.0, 10_000),
        lru_model.zipf(1.4, 10_000),
        lru_model.lognormal(2.0),
        lru_model.gamma(2.0),
        lru_model.hot_set(0.1),
    ],
)
def test_laws_are_laws_and_misses_fall_with_the_pool(law: Law) -> None:
    assert law.pages.sum() == pytest.approx(1)
    assert (law.pages * law.rates).sum() == pytest.approx(1)
    assert law.rates.min() > 0
    misses = [lru_model.steady(law, x).misses for x in (0.1, 0.3, 0.5, 0.7, 0.9, 0.98)]
    assert misses == sorted(misses, reverse=True)
    assert lru_model.steady(law, 1.0).misses == 0


@pytest.mark.parametrize("workload", WORKLOADS)
def test_one_size_predicts_others(workload: str) -> None:
    curve = pool_sizes.fitted([_point(workload, 0.45)], LIST)
    assert curve.by_promotions
    for x_ratio in (0.3, 0.6, 0.75):
        truth = _simulated(workload, x_ratio)[0] * 20
        found = curve.reads(x_ratio * PAGES)
        assert found.estimate == pytest.approx(truth, rel=0.15)
        assert 0.97 * found.low <= truth <= 1.03 * found.high
    here = curve.reads(0.45 * PAGES)
    assert here.estimate == pytest.approx(_simulated(workload, 0.45)[0] * 20, rel=0.02)


def test_two_sizes_narrow_the_interval() -> None:
    one = pool_sizes.fitted([_point("zipf", 0.45)], LIST).reads(0.8 * PAGES)
    both = pool_sizes.fitted([_point("zipf", 0.45), _point("zipf", 0.65)], LIST)
    two = both.reads(0.8 * PAGES)
    assert two.n == 2
    assert two.high - two.low < one.high - one.low
    assert two.low <= _simulated("zipf", 0.8)[0] * 20 <= two.high


@pytest.mark.parametrize("changes", [{"reads": 0.0}, {"pages": 1.1 * PAGES}])
def test_a_size_that_says_nothing_leaves_the_curve_of_the_others(changes: dict[str, float]) -> None:
    """A larger pool of all data reads nothing, and no law is behind that."""
    now, useless = _point("zipf", 0.45), _point("zipf", 0.65, **changes)
    alone, both = (pool_sizes.fitted(points, LIST) for points in ([now], [now, useless]))
    assert both.by_promotions
    assert both.reads(0.8 * PAGES) == alone.reads(0.8 * PAGES)
    assert not pool_sizes.is_usable(useless, LIST)
    assert pool_sizes.is_usable(_point("zipf", 0.65), LIST)


@pytest.mark.parametrize("changes", [{"promoted": 3.0}, {"promoted": math.nan}, {"seconds": 1e-3}])
def test_without_promotions_the_interval_is_wide_and_holds_the_truth(
    changes: dict[str, float],
) -> None:
    if math.isnan(changes.get("promoted", 0.0)):
        changes = {"promoted": None}  # type: ignore[dict-item]
    wide = pool_sizes.fitted([_point("zipf", 0.45, **changes)], LIST)
    assert not wide.by_promotions
    found, truth = wide.reads(0.7 * PAGES), _simulated("zipf", 0.7)[0] * 20
    assert found.low <= truth <= found.high
    known = pool_sizes.fitted([_point("zipf", 0.45)], LIST).reads(0.7 * PAGES)
    assert found.high - found.low > 2 * (known.high - known.low)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reads": 50.0}, "too few"),
        ({"statements": 0.0}, "too few"),
        ({"pages": PAGES + 1.0}, "larger than the data"),
        ({"requests": 2.0}, "no law of access"),
    ],
)
def test_numbers_that_say_nothing_are_refused(changes: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pool_sizes.fitted([_point("zipf", 0.45, **changes)], LIST)


def test_a_pool_of_all_data_reads_nothing() -> None:
    curve = pool_sizes.fitted([_point("uniform", 0.45)], LIST)
    assert curve.reads(1.1 * PAGES).estimate == 0


@pytest.mark.parametrize("threads", [1, 8])
def test_think_time_is_time_in_which_nobody_waits(threads: int) -> None:
    assert queueing.throughput([0.0], threads, 0.02) == pytest.approx(threads / 0.02)
    assert queueing.throughput([0.01], 1, 0.03) == pytest.approx(25)


def _pace(reads: float, *, queued: bool) -> tuple[ServerPace, float]:
    """Return what is seen of a made server, and its true rate at half the reads."""
    each_s, threads, rest_s = 0.0005, 8, 0.001

    def rate(pages: float) -> float:
        station, alone = (pages * each_s, 0.0) if queued else (0.0, pages * each_s)
        return queueing.throughput([station], threads, rest_s + alone)

    now = rate(reads)
    return ServerPace(threads, now, reads, threads / now - rest_s), rate(reads / 2)


def _at(pace: ServerPace, reads: float, read_per_s: float | None = None) -> Interval:
    found = pace.at(Interval(reads, reads, reads, 1), read_per_s)
    assert found is not None
    return found


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("reads", [0.5, 2.0, 10.0])
def test_throughput_lies_between_both_answers(queued: bool, reads: float) -> None:
    pace, truth = _pace(reads, queued=queued)
    now = _at(pace, reads)
    assert now.estimate == pytest.approx(pace.statements_per_s, rel=1e-6)
    found = _at(pace, reads / 2)
    assert 0.97 * found.low <= truth <= 1.03 * found.high
    assert found.estimate > now.estimate


def test_throughput_ends_where_processors_do() -> None:
    pace = ServerPace(16, 1000.0, 2.0, 0.014, 2, 0.0005)
    assert _at(pace, 0).high <= 2 / (0.0005 - 2 * 80e-6) * math.exp(0.1) * 1.001
    assert _at(pace, 2, 1e6).estimate > 1000


def test_throughput_is_not_known_where_nothing_bounds_it() -> None:
    """Where reads are all that statements wait for, without any they take no time at all."""
    pace = ServerPace(8, 1000.0, 2.0, 0.009)
    assert pace.at(Interval(0, 0, 0, 1)) is None
    assert _at(pace, 2).estimate == pytest.approx(1000)


def test_offers_cost_what_is_added() -> None:
    found = buying.offers(32.0, 100.0, "mine", [(2, "x25-e")], 5.0, {"x25-e": 300.0})
    assert [offer.price for offer in found] == [0, 160, 340, 600, 760]
    unknown = buying.offers(32.0, 100.0, "mine", [(1, "x25-e")], None, {})
    assert [math.isnan(offer.price) for offer in unknown] == [False, True, True, True, True]
