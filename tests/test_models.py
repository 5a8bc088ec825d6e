"""The model against sysbench itself, simulated caches, and results known from queueing theory."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from midpoint import lru_misses, midpoint_misses
from scipy.stats import chisquare, irwinhall

from innolab.analysis import cache_misses, queueing
from innolab.analysis.queueing import ArmPoint, Device, Model

DISTRIBUTIONS = ("uniform", "special", "pareto", "zipf")

# A million ids each, counted by pages of 100 ids: (id - 1) // 100, between the edges in PAGES.
# The first three are sysbench 1.0.20+ds-5 of Debian, which prints the same for the same seed:
#   sysbench r.lua --rand-type=T --rand-seed=1 --events=1000000 --time=0 --threads=1 run
# where r.lua is
#   function thread_init() end
#   function event() print(sysbench.rand.default(1, 1000000)) end
# That sysbench has no zipfian. Its numbers are of sb_rand_zipfian_int in src/sb_rand.c of
# github.com/akopytov/sysbench at 3ceba0b, compiled with drand48() after srand48(1) as its uniform
# draw and called with n = 1000000 and an exponent of 0.8.
_SKEWED = "0 1 2 3 5 10 20 50 100 200 350 500 750 1000 1500 2000 3000 4000 6000 8000 10000"
PAGES = {
    "uniform": " ".join(map(str, range(0, 10001, 500))),
    "special": """0 2500 3000 3500 4000 4250 4500 4750 4900 4950 4975
        5000 5025 5050 5100 5250 5500 6000 6500 7000 10000""",
    "pareto": _SKEWED,
    "zipf": _SKEWED,
}
DRAWN = {
    "uniform": """49956 50420 50003 50091 49855 49880 49758 49733 49972 50259
        49870 49955 49825 50185 50283 49957 49639 50139 50292 49928""",
    "special": """250 1635 7263 20208 17334 22764 26859 17271 5986 3055
        252403 253243 252553 5950 17165 26902 39893 20313 7024 1929""",
    "pareto": """279322 27799 17612 23805 35085 38675 57465 47943 53624 46588
        31600 38527 28557 42039 31361 45943 34640 51033 38117 30265""",
    "zipf": """108542 24959 16128 22295 34395 39455 61408 54716 62987 57769
        40052 49238 37239 56472 42919 64585 49318 74813 56783 45927""",
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_popularity_is_what_sysbench_draws(distribution: str) -> None:
    shares = cache_misses.popularity(distribution, 10_000, 1_000_000)
    edges = [int(page) for page in PAGES[distribution].split()]
    drawn = [int(count) for count in DRAWN[distribution].split()]
    assert sum(drawn) == 1_000_000
    expected = np.add.reduceat(shares, edges[:-1]) * 1_000_000
    assert chisquare(drawn, expected).pvalue > 0.001


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize(("pages", "rows"), [(1, 1), (7, 7), (1000, 77_777), (30_000, 2_000_000)])
def test_popularity_sums_to_one(distribution: str, pages: int, rows: int) -> None:
    shares = cache_misses.popularity(distribution, pages, rows)
    assert shares.shape == (pages,)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-12)


def test_zipf_is_the_plain_sum_of_its_rows() -> None:
    weights = np.arange(1, 50_001) ** -0.8
    plain = weights.reshape(1000, 50).sum(axis=1) / weights.sum()
    assert cache_misses.popularity("zipf", 1000, 50_000) == pytest.approx(plain, rel=1e-9)


def test_special_keeps_its_smallest_shares() -> None:
    rows = 100_001
    shares = cache_misses.popularity("special", rows, rows)
    outer = np.array([10, 1000, 99_000, 99_990])
    law = irwinhall(12)
    edges = np.array([outer, outer + 1]) * 12 / (rows - 1)
    below = law.cdf(edges[1]) - law.cdf(edges[0])
    above = law.sf(edges[0]) - law.sf(edges[1])
    expected = np.where(outer < rows / 2, below, above) / 4
    assert shares[outer] == pytest.approx(expected, rel=1e-6, abs=0)


@pytest.mark.parametrize(
    ("distribution", "pages", "rows"),
    [("gaussian", 10, 100), ("uniform", 0, 100), ("uniform", 101, 100)],
)
def test_no_such_table(distribution: str, pages: int, rows: int) -> None:
    with pytest.raises(ValueError):
        cache_misses.popularity(distribution, pages, rows)


# Computed apart from this code, before it, in the limit of a table without end: zipf as the
# density x**-0.8, special with a normal law in the place of the sum of twelve. The tolerance is
# what this makes for 4e7 rows.
SIZES = (0.083, 0.33, 0.36, 0.5, 0.73, 0.9)


@pytest.mark.parametrize(
    ("distribution", "expected", "tolerance"),
    [
        ("uniform", [0.917, 0.67, 0.64, 0.5, 0.27, 0.1], 0.0005),
        ("special", [0.179, 0.023, 0.015, 0.0012, 0, 0], 0.0015),
        ("pareto", [None, 0.198, 0.184, 0.128, 0.059, 0.019], 0.0005),
        ("zipf", [None, 0.273, 0.255, 0.179, 0.083, 0.027], 0.008),
    ],
)
def test_miss_ratios_agree_with_the_table(
    distribution: str, expected: list[float | None], tolerance: float
) -> None:
    for x_ratio, value in zip(SIZES, expected, strict=True):
        if value is not None:
            found = cache_misses.miss_ratio(distribution, x_ratio, 60_000, 40_000_000)
            assert found == pytest.approx(value, abs=tolerance)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_miss_ratio_falls_from_one_to_zero(distribution: str) -> None:
    sizes = [0, 1e-9, *np.linspace(0.01, 0.99, 40), 1 - 1e-9, 1, 1.5]
    found = [cache_misses.miss_ratio(distribution, x, 2000, 1_000_000) for x in sizes]
    assert found[0] == 1
    assert found[-2:] == [0, 0]
    assert all(0 <= small <= large <= 1 for large, small in pairwise(found))


def test_a_cache_larger_than_what_is_asked_for_misses_nothing() -> None:
    # special never draws the last id.
    assert cache_misses.miss_ratio("special", 0.95, 10, 10) == 0


@pytest.mark.parametrize("x_ratio", [-0.1, math.nan])
def test_no_such_cache(x_ratio: float) -> None:
    with pytest.raises(ValueError):
        cache_misses.miss_ratio("uniform", x_ratio, 10, 100)


PAGES_SIMULATED, WARM_UP = 2000, 60_000


def _accesses(distribution: str) -> list[int]:
    draw = np.random.default_rng(1)
    shares = cache_misses.popularity(distribution, PAGES_SIMULATED, 4_000_000)
    return list(draw.choice(PAGES_SIMULATED, size=150_000, p=shares).tolist())


def _share(missed: list[bool]) -> float:
    return sum(missed[WARM_UP:]) / len(missed[WARM_UP:])


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_che_agrees_with_simulated_lru(distribution: str) -> None:
    accesses = _accesses(distribution)
    for x_ratio in (0.1, 0.33, 0.5, 0.9):
        found = cache_misses.miss_ratio(distribution, x_ratio, PAGES_SIMULATED, 4_000_000)
        simulated = _share(lru_misses(accesses, round(x_ratio * PAGES_SIMULATED)))
        assert simulated == pytest.approx(found, abs=0.005)


# InnoDB's list keeps pages that are asked for often better than plain LRU and misses less. Over
# longer traces: at x = 0.1 by 0.007 of 0.167 (special), 0.047 of 0.365 (pareto) and 0.062 of 0.506
# (zipf), by a tenth of the misses at 0.33, by 7 % at 0.5, and by nothing at 0.9 or where all pages
# are asked for alike. The bounds add what a trace of this length scatters.
@pytest.mark.parametrize(
    ("distribution", "most"),
    [("uniform", 0.005), ("special", 0.015), ("pareto", 0.06), ("zipf", 0.075)],
)
def test_che_bounds_the_misses_of_the_midpoint_list(distribution: str, most: float) -> None:
    accesses = _accesses(distribution)
    for x_ratio in (0.1, 0.33, 0.5, 0.9):
        found = cache_misses.miss_ratio(distribution, x_ratio, PAGES_SIMULATED, 4_000_000)
        size = round(x_ratio * PAGES_SIMULATED)
        simulated = _share(midpoint_misses(accesses, size, PAGES_SIMULATED // 50))
        assert found - most <= simulated <= found + 0.005


# Where old pages are evicted within innodb_old_blocks_time none is promoted and the list works
# like first-in first-out: it then misses up to 0.036 more than LRU.
@pytest.mark.parametrize("distribution", ["special", "pareto", "zipf"])
def test_che_is_too_low_where_no_page_is_promoted(distribution: str) -> None:
    accesses = _accesses(distribution)
    for x_ratio in (0.1, 0.33):
        found = cache_misses.miss_ratio(distribution, x_ratio, PAGES_SIMULATED, 4_000_000)
        size = round(x_ratio * PAGES_SIMULATED)
        simulated = _share(midpoint_misses(accesses, size, 10 * PAGES_SIMULATED))
        assert found - 0.005 <= simulated <= found + 0.045


def test_a_scan_leaves_the_young_pages() -> None:
    pool, scan = list(range(8)), list(range(100, 200))
    assert lru_misses([*pool, *scan, *pool], 8)[-8:].count(False) == 0
    assert midpoint_misses([*pool, *scan, *pool], 8, 1)[-8:].count(False) == 5


@pytest.mark.parametrize(("old_blocks_time", "stays"), [(1, True), (2, False)])
def test_a_page_asked_for_again_in_time_outlives_a_scan(old_blocks_time: int, stays: bool) -> None:
    accesses = [*range(8), 50, 50, *range(100, 200), 50]
    assert midpoint_misses(accesses, 8, old_blocks_time)[-1] is not stays


def test_nothing_is_evicted_from_a_pool_with_room() -> None:
    assert midpoint_misses([*range(8), *range(8)], 8, 1) == [True] * 8 + [False] * 8


@pytest.mark.parametrize("threads", [1, 2, 16, 500])
def test_one_station_serves_at_its_speed(threads: int) -> None:
    assert queueing.throughput([0.004], threads) == pytest.approx(250)


def test_one_transaction_alone_waits_for_nobody() -> None:
    assert queueing.throughput([0.01, 0.03, 0.0], 1) == pytest.approx(25)


@pytest.mark.parametrize("threads", [1, 2, 8, 64])
@pytest.mark.parametrize("stations", [2, 3])
def test_balanced_stations(threads: int, stations: int) -> None:
    # N / ((N + K - 1) D), e.g. Lazowska et al. (1984), "Quantitative system performance", 5.
    known = threads / ((threads + stations - 1) * 0.01)
    assert queueing.throughput([0.01] * stations, threads) == pytest.approx(known)


@pytest.mark.parametrize("threads", [1, 3, 10])
def test_two_stations_are_a_queue_with_limited_room(threads: int) -> None:
    # M/M/1/N with load r = d1 / d2: the second station works unless all wait at the other.
    first, second = 0.004, 0.01
    load = first / second
    idle = load**threads * (1 - load) / (1 - load ** (threads + 1))
    assert queueing.throughput([first, second], threads) == pytest.approx((1 - idle) / second)


def test_throughput_stays_below_its_bounds() -> None:
    draw = random.Random(5)
    for _ in range(50):
        demands = [draw.uniform(0, 0.1) for _ in range(3)]
        found = [queueing.throughput(demands, n) for n in range(1, 40)]
        assert all(after >= before * (1 - 1e-12) for before, after in pairwise(found))
        for n, rate in enumerate(found, start=1):
            assert rate <= min(1 / max(demands), n / sum(demands)) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("demands", "threads"), [([], 1), ([0.0], 1), ([-1.0, 2.0], 1), ([math.nan], 1), ([0.1], 0)]
)
def test_no_such_network(demands: list[float], threads: int) -> None:
    with pytest.raises(ValueError):
        queueing.throughput(demands, threads)


SLOW, MIDDLE, FAST = Device(180, 160), Device(9000, 6000), Device(60_000, 40_000)
READ_ONLY = Model(cpu_tps=900, threads=16, reads=25, miss_cpu_s=2e-5)
READ_WRITE = Model(cpu_tps=700, threads=16, reads=30, miss_cpu_s=2e-5, writes=12)


def _points(model: Model, noise: float = 0.0, seed: int = 1) -> list[ArmPoint]:
    draw = random.Random(seed)
    return [
        ArmPoint(model.tps(missed, device) * math.exp(draw.gauss(0, noise)), missed, device)
        for device in (SLOW, MIDDLE, FAST)
        for missed in (0.9, 0.67, 0.5, 0.27, 0.02)
    ]


def test_model_knows_its_ends() -> None:
    assert READ_ONLY.tps(0, SLOW) == pytest.approx(900)
    assert READ_ONLY.tps(1, SLOW) == pytest.approx(180 / 25, rel=0.01)
    assert READ_WRITE.tps(0, SLOW) == pytest.approx(160 / 12, rel=0.01)
    falling = [READ_WRITE.tps(m, MIDDLE) for m in np.linspace(0, 1, 20)]
    assert falling == sorted(falling, reverse=True)


@pytest.mark.parametrize("threads", [1, 16, 64])
def test_fits_recover_planted_constants(threads: int) -> None:
    planted = Model(900, threads, 25, 2e-5)
    found = queueing.fit_reads(_points(planted), 900, threads)
    assert found.reads == pytest.approx(25, rel=1e-4)
    assert found.miss_cpu_s == pytest.approx(2e-5, rel=1e-4)
    assert found.writes == 0
    planted = Model(700, threads, 30, 2e-5, 12)
    found = queueing.fit_writes(_points(planted), 700, threads, 2e-5)
    assert found.reads == pytest.approx(30, rel=1e-4)
    assert found.writes == pytest.approx(12, rel=1e-4)
    assert queueing.errors(found, _points(planted)) == pytest.approx([0] * 15, abs=1e-4)


def test_fits_come_near_planted_constants_through_noise() -> None:
    for seed in range(5):
        found = queueing.fit_reads(_points(READ_ONLY, 0.05, seed), 900, 16)
        assert found.reads == pytest.approx(25, rel=0.1)
        assert found.miss_cpu_s == pytest.approx(2e-5, rel=0.5)
        found = queueing.fit_writes(_points(READ_WRITE, 0.05, seed), 700, 16, 2e-5)
        assert found.reads == pytest.approx(30, rel=0.15)
        assert found.writes == pytest.approx(12, rel=0.1)


def test_pages_that_cost_no_cpu() -> None:
    found = queueing.fit_reads(_points(Model(900, 16, 25, 0)), 900, 16)
    assert found.reads == pytest.approx(25, rel=1e-3)
    assert found.miss_cpu_s < 1e-9


def test_a_constant_that_no_point_shows_is_small() -> None:
    points = [ArmPoint(READ_ONLY.tps(m, SLOW), m, SLOW) for m in (0.9, 0.6)]
    faster = queueing.fit_reads(points, 900, 64)
    assert faster.tps(0.5, FAST) > 0.9 * 900


def test_fits_take_whatever_was_measured() -> None:
    draw = random.Random(11)
    for _ in range(30):
        points = [
            ArmPoint(
                10 ** draw.uniform(0, 4),
                draw.choice([0, 1e-12, 0.5, 1]),
                Device(10 ** draw.uniform(1, 6), 10 ** draw.uniform(1, 6)),
            )
            for _ in range(draw.randint(1, 5))
        ]
        points.append(ArmPoint(100, 0.3, MIDDLE))
        for found in (
            queueing.fit_reads(points, 500, 8),
            queueing.fit_writes(points, 500, 8, 1e-5),
        ):
            assert all(math.isfinite(e) for e in queueing.errors(found, points))


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([], "at least two"),
        ([ArmPoint(10, 0.5, SLOW)], "at least two"),
        ([ArmPoint(10, 0.0, SLOW)] * 2, "no point misses"),
        ([ArmPoint(0, 0.5, SLOW)] * 2, "no measurement"),
        ([ArmPoint(10, 1.5, SLOW)] * 2, "no measurement"),
        ([ArmPoint(10, 0.5, Device(0, 1))] * 2, "no measurement"),
    ],
)
def test_what_cannot_be_fitted_is_refused(points: list[ArmPoint], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        queueing.fit_reads(points, 900, 16)
    with pytest.raises(ValueError, match=said):
        queueing.fit_writes(points, 900, 16, 0)


def test_refuses_a_device_without_speed_and_cpu_below_zero() -> None:
    with pytest.raises(ValueError, match="must read and write"):
        READ_ONLY.tps(0.5, Device(100, 0))
    with pytest.raises(ValueError, match="cannot be"):
        queueing.fit_writes(_points(READ_WRITE), 700, 16, -1e-5)


def test_prediction_holds_a_new_measurement_as_often_as_it_says() -> None:
    draw = random.Random(7)
    held = 0
    for _ in range(4000):
        seen = [draw.gauss(0, 0.1) for _ in range(4)]
        found = queueing.prediction(100 * math.exp(draw.gauss(0, 0.1)), seen)
        held += found.low <= 100 <= found.high
    assert 0.94 <= held / 4000 <= 0.96


def test_prediction_holds_more_often_where_errors_share_a_bias() -> None:
    draw = random.Random(8)
    held = 0
    for _ in range(2000):
        bias = draw.gauss(0, 0.1)
        seen = [draw.gauss(bias, 0.1) for _ in range(4)]
        found = queueing.prediction(100 * math.exp(draw.gauss(bias, 0.1)), seen)
        held += found.low <= 100 <= found.high
    assert held / 2000 >= 0.95


def test_prediction_by_hand() -> None:
    # Student's quantile with two degrees of freedom is 4.303.
    found = queueing.prediction(50, [0.1, -0.1])
    assert found.high == pytest.approx(50 * math.exp(0.4303), rel=1e-4)
    assert found.low == pytest.approx(50 * math.exp(-0.4303), rel=1e-4)
    assert found.n == 2
    assert queueing.prediction(50, [0.1, -0.1], level=0.5).high < found.high


@pytest.mark.parametrize("seen", [[], [0.1]])
def test_few_errors_leave_no_interval(seen: list[float]) -> None:
    found = queueing.prediction(50, seen)
    assert found.estimate == 50
    assert math.isnan(found.low)
    assert math.isnan(found.high)


@pytest.mark.parametrize(
    ("estimate", "seen"), [(0, [0.1, 0.1]), (math.inf, []), (50, [0.1, math.nan])]
)
def test_no_such_prediction(estimate: float, seen: list[float]) -> None:
    with pytest.raises(ValueError):
        queueing.prediction(estimate, seen)
