"""How often are intervals and verdicts wrong? `make evaluate`: simulated blocks, no server.

Eight kinds of noise, among them runs of one arm that are slowed from outside, which a mean follows.
Exit status 1 where an interval or a plan of looks breaks its promise by more than chance explains.
"""

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from innolab import studies
from innolab.analysis import group_sequential, stats
from innolab.base.errors import InnolabError

SAMPLES = 20_000
SEED = 2017
BLOCKS = range(3, 16)
FIRST, LAST = 3, 12
MOST_FIXED = 30
COVERAGE = 0.93
FALSE_VERDICTS = 0.05
# Chance takes a simulated rate further than this from the true one in about one of 1000.
STANDARD_ERRORS = 3
# Standard deviation of the logarithm of a run, as of undisturbed runs on a quiet host.
NOISE = 0.07
GAIN = math.log(1.2)
WIDTH = 26
RESULTS = Path(__file__).parent / "results"
REPORTS = Path(__file__).parent.parent / "reports"

# Claims on log ratios, as (lowest, highest) that is true.
CLAIMS = {
    "at least 1.0": (0.0, math.inf),
    "1.2 within 20 %": (GAIN - math.log(1.2), GAIN + math.log(1.2)),
    "1.2 within 15 %": (GAIN - math.log(1.15), GAIN + math.log(1.15)),
}

# Returns log ratios of blocks, of shape (samples, blocks), whose true value is 0.
Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(draw: np.random.Generator, blocks: int) -> np.ndarray:
    return draw.normal(0, NOISE * math.sqrt(2), (SAMPLES, blocks))


def drifting(draw: np.random.Generator, blocks: int) -> np.ndarray:
    """Every slot of three is 1 to 3 % slower than the one before; the order is drawn a block.

    A shift from block to block is no part of it: the ratio cancels it.
    """
    drift = draw.uniform(0.01, 0.03, (SAMPLES, 1))
    slots = draw.permuted(np.broadcast_to(np.arange(3), (SAMPLES, blocks, 3)), axis=2)
    return normal(draw, blocks) + drift * (slots[..., 0] - slots[..., 1])


def outliers(draw: np.random.Generator, blocks: int) -> np.ndarray:
    """A fifth of the runs of either arm take longer, by half on average on the log scale."""

    def arm() -> np.ndarray:
        shape = (SAMPLES, blocks)
        return draw.normal(0, NOISE, shape) + (draw.random(shape) < 0.2) * draw.exponential(
            0.5, shape
        )

    return arm() - arm()


def slowed(share: float, factor: float) -> Noise:
    """Return noise in which a share of the runs of one arm is slower by a factor."""

    def noise(draw: np.random.Generator, blocks: int) -> np.ndarray:
        stalled = draw.random((SAMPLES, blocks)) < share
        return normal(draw, blocks) - stalled * math.log(factor)

    return noise


def flipping(share: float, factor: float) -> Noise:
    """Return noise of a machine that is slower by a factor before a share of all runs."""

    def noise(draw: np.random.Generator, blocks: int) -> np.ndarray:
        of, to = (draw.random((SAMPLES, blocks)) < share for _ in range(2))
        return normal(draw, blocks) - of * math.log(factor) + to * math.log(factor)

    return noise


def recorded(residuals: np.ndarray) -> Noise:
    """Return the noise of recorded runs, drawn with replacement."""

    def noise(draw: np.random.Generator, blocks: int) -> np.ndarray:
        shape = (SAMPLES, blocks)
        return draw.choice(residuals, shape) - draw.choice(residuals, shape)

    return noise


def residuals() -> np.ndarray:
    """Return the log residuals of the valid runs of every report, centred in their arm."""
    found = []
    for folder in sorted(file.parent for file in REPORTS.glob("*/*/runs.jsonl")):
        runs = studies.find(folder.parent.name).read(folder).valid
        arms: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for run in runs.runs:
            for row in run.observations:
                within = [(name, row[name]) for name in sorted(runs.within & row.keys())]
                for metric in {"tps", "seconds", "per_s"} & row.keys():
                    arm = (*run.factors.items(), *within, metric)
                    arms[arm].append(math.log(float(row[metric])))
        for logs in arms.values():
            if (n := len(logs)) > 1:
                # n values lie closer to their own mean than to the true one.
                found.append((np.array(logs) - np.mean(logs)) * math.sqrt(n / (n - 1)))
    if not found:
        raise InnolabError(f"No recorded runs in {REPORTS}.")
    return np.concatenate(found)


def models() -> dict[str, Noise]:
    return {
        "normal noise of 7 %": normal,
        "drift inside blocks": drifting,
        "outliers in both arms": outliers,
        "both arms: 33 % at 1/1.6": flipping(1 / 3, 1.6),
        "both arms: 50 % at 1/2": flipping(1 / 2, 2),
        "recorded runs": recorded(residuals()),
        "one arm: 20 % at 1/2": slowed(0.2, 2),
        "one arm: 30 % at 1/4": slowed(0.3, 4),
    }


def bounds(samples: np.ndarray, level: float, robust: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of `stats.robust_mean` of many samples at once, or of Student's."""
    n = samples.shape[-1]
    mean = samples.mean(axis=-1)
    half = stats.student_quantile(level, n - 1) * samples.std(axis=-1, ddof=1) / math.sqrt(n)
    low, high = mean - half, mean + half
    if not robust:
        return low, high
    wide = stats.looks_disturbed(samples)
    ordered, rank = np.sort(samples, axis=-1), stats.outer_rank(n, level)
    low = np.where(wide, np.minimum(low, ordered[:, rank - 1]), low)
    return low, np.where(wide, np.maximum(high, ordered[:, -rank]), high)


def verdicts(
    samples: np.ndarray, low: float, high: float, level: float, robust: bool = True
) -> np.ndarray:
    """Return what each sample says of a claim: 1 reproduced, -1 contradicted, 0 inconclusive."""
    least, greatest = bounds(samples, level, robust)
    within = (low <= least) & (greatest <= high)
    outside = (greatest < low) | (high < least)
    return np.where(within, 1, np.where(outside, -1, 0))


def stops(samples: np.ndarray, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Return after how many blocks each sample stops, and with which verdict."""
    blocks = np.full(len(samples), LAST)
    verdict = np.zeros(len(samples), dtype=int)
    for n in range(FIRST, LAST + 1):
        level = group_sequential.level_at(n, FIRST, LAST)
        assert level is not None  # As n is a look.
        now = np.where(verdict == 0, verdicts(samples[:, :n], low, high, level), 0)
        blocks[now != 0] = n
        verdict += now
    return blocks, verdict


def coverage(noise: Noise, draw: np.random.Generator) -> dict[str, list[float]]:
    """Return how many intervals hold the truth, and their median width, by number of blocks."""
    found: dict[str, list[float]] = {"robust": [], "student": [], "width_ratio": []}
    for n in BLOCKS:
        samples = noise(draw, n)
        low, high = bounds(samples, stats.LEVEL)
        least, greatest = bounds(samples, stats.LEVEL, robust=False)
        found["robust"].append(float(np.mean((low <= 0) & (high >= 0))))
        found["student"].append(float(np.mean((least <= 0) & (greatest >= 0))))
        found["width_ratio"].append(float(np.median(high - low) / np.median(greatest - least)))
    return found


def false_verdicts(noise: Noise, draw: np.random.Generator) -> float:
    """Return the rate of verdicts where the truth lies on a bound, where none is right.

    The largest over claims, and over which arm is disturbed.
    """
    samples = noise(draw, LAST)
    narrow = 2 * math.log(1.2)
    claims = [(0.0, math.inf), (0.0, narrow), (-narrow, 0.0)]
    return max(float(np.mean(stops(samples, *claim)[1] != 0)) for claim in claims)


def saving(noise: Noise, claim: str, draw: np.random.Generator) -> dict[str, float | None]:
    """Return what looking after every block costs at a true ratio of 1.2, against a fixed plan.

    The fixed plan has the least number of blocks that reproduces the claim as often, by the same
    interval or by Student's, which does not hold what it promises in every model; None where none
    does.
    """
    low, high = CLAIMS[claim]
    blocks, verdict = stops(noise(draw, LAST) + GAIN, low, high)
    power = float(np.mean(verdict == 1))
    fixed: dict[bool, int] = {}
    for n in range(2, MOST_FIXED + 1):
        samples = noise(draw, n) + GAIN
        for robust in (True, False):
            if np.mean(verdicts(samples, low, high, stats.LEVEL, robust) == 1) >= power:
                fixed.setdefault(robust, n)
    return {
        "reproduced": power,
        "blocks": float(np.mean(blocks)),
        "fixed": fixed.get(True),
        "fixed_student": fixed.get(False),
    }


def broken(rate: float, promised: float) -> bool:
    """Return whether a rate is above a promised one by more than chance explains."""
    return rate > promised + STANDARD_ERRORS * math.sqrt(promised * (1 - promised) / SAMPLES)


def measure() -> dict[str, dict[str, Any]]:
    """Return by model the coverage, the rate of false verdicts, and what the looks save."""
    draw = np.random.default_rng(SEED)
    return {
        name: {
            "coverage": coverage(noise, draw),
            "false_verdicts": false_verdicts(noise, draw),
            "savings": {claim: saving(noise, claim, draw) for claim in CLAIMS},
        }
        for name, noise in models().items()
    }


def tables(found: dict[str, dict[str, Any]]) -> str:
    """Return the rates as text."""
    lines = []
    for key, title in (
        ("robust", "Share of our 95 % intervals that hold the truth, by blocks"),
        ("student", "The same of Student's intervals"),
        ("width_ratio", "Median width of ours over Student's"),
    ):
        lines += ["", title, " " * WIDTH + "".join(f"{n:>7}" for n in BLOCKS)]
        for name, one in found.items():
            lines.append(
                f"  {name:{WIDTH - 2}}" + "".join(f"{v:7.3f}" for v in one["coverage"][key])
            )
    lines += [
        "",
        f"Looks after {FIRST} to {LAST} blocks, at most {FALSE_VERDICTS:.0%} false verdicts",
    ]
    for name, one in found.items():
        lines.append(f"  {name}: {one['false_verdicts']:.1%} false with the truth on a bound")
        for claim, saved in one["savings"].items():
            lines.append(
                f"    truth 1.2, claim {claim}: reproduced in {saved['reproduced']:.1%}, after "
                f"{saved['blocks']:.1f} blocks on average "
                f"(fixed: {saved['fixed']}, by Student's {saved['fixed_student']})"
            )
    return "\n".join(lines)


def promises_kept(found: dict[str, dict[str, Any]]) -> bool:
    """Return whether no rate is worse than its bound by more than chance explains."""
    return not any(
        broken(one["false_verdicts"], FALSE_VERDICTS)
        or any(broken(1 - held, 1 - COVERAGE) for held in one["coverage"]["robust"])
        for one in found.values()
    )


def main() -> int:
    """Simulate, print the rates, keep them, and return the exit status."""
    found = measure()
    print(tables(found))
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"error-rates-{datetime.now(UTC):%Y-%m-%dT%H%M%S}.json"
    path.write_text(json.dumps({"blocks": list(BLOCKS), "models": found}, indent=1) + "\n")
    print(f"Values: {path}")
    if promises_kept(found):
        return 0
    print(f"A bound is missed: coverage {COVERAGE:.0%}, false verdicts {FALSE_VERDICTS:.0%}.")
    return 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except InnolabError as error:
        raise SystemExit(str(error)) from None
