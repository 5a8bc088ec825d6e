"""How often do pooled intervals hold the truth? `make evaluate`: simulated reports, no server.

Hosts differ not at all to three times as much as a report errs; their noise is equal or up to ten
times as large on one as on another; reports have 3 to 9 blocks. Beside ours stand the intervals
that others take. Exit status 1 where ours hold less than they promise by more than chance explains.
"""

import itertools
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.error_rates import COVERAGE, SEED, broken
from innolab.analysis import meta_analysis, stats
from innolab.analysis.meta_analysis import Array

SAMPLES = 20_000
HOSTS = (2, 3, 5, 10)
BLOCKS = ((3, 3), (3, 9), (8, 8))
# Of hosts' truths, in standard errors of a report.
SPREADS = (0.0, 0.5, 1.0, 3.0)
LEAST_NOISE, MOST_NOISE = 0.3, 3.0
_REML_STEPS = 60


class Made(NamedTuple):
    """Simulated reports of a claim whose mean over hosts is 0, and those of a further host.

    Arrays of shape (samples, k), those of the further host (samples,).
    """

    estimates: Array
    variances: Array
    blocks: NDArray[np.int64]
    further_truth: Array
    further_estimate: Array


class Half(NamedTuple):
    """A mean with half the width of its interval, and of what is predicted of a further host."""

    mean: Array
    half: Array
    predicted: Array


def hosts(
    k: int, blocks: tuple[int, int], spread: float, tenfold: bool, samples: int = SAMPLES
) -> Made:
    """Return reports of k hosts: each has its truth, its noise, and a number of blocks."""
    draw = np.random.default_rng(SEED)
    shape = samples, k + 1
    n = draw.integers(blocks[0], blocks[1] + 1, shape)
    logs = draw.uniform(math.log(LEAST_NOISE), math.log(MOST_NOISE), shape)
    noise = np.exp(logs) if tenfold else np.ones(shape)
    truths = draw.normal(0, spread / math.sqrt(n.mean()), shape)
    estimates = truths + draw.normal(0, noise / np.sqrt(n))
    variances = noise**2 * draw.chisquare(n - 1) / (n - 1) / n
    further = truths[:, k], estimates[:, k]
    return Made(estimates[:, :k], variances[:, :k], n[:, :k], *further)


def ours(made: Made) -> Half:
    found = meta_analysis.random_effects(
        made.estimates, meta_analysis.moderated(made.variances, made.blocks)
    )  # fmt: skip
    return Half(found.mean, found.half, found.predicted_half)


def own_variances(made: Made) -> Half:
    """As ours, each report by its own variance alone."""
    found = meta_analysis.random_effects(made.estimates, made.variances)
    return Half(found.mean, found.half, found.predicted_half)


def by_reml(made: Made) -> Half:
    """As ours, the variance between hosts by restricted maximum likelihood (Fisher scoring)."""
    v = meta_analysis.moderated(made.variances, made.blocks)
    tau2 = dersimonian_laird(made.estimates, v)
    for _ in range(_REML_STEPS):
        mean, weights = _weighted(made.estimates, v + tau2[:, None])
        squares = (weights**2 * ((made.estimates - mean[:, None]) ** 2 - v)).sum(1)
        tau2 = np.maximum(0, squares / (weights**2).sum(1) + 1 / weights.sum(1))
    return _knapp_hartung(made.estimates, v, tau2, modified=True)


def not_modified(made: Made) -> Half:
    """As ours, without the floor under Knapp and Hartung's variance."""
    v = meta_analysis.moderated(made.variances, made.blocks)
    tau2 = meta_analysis.paule_mandel(made.estimates, v)
    return _knapp_hartung(made.estimates, v, tau2, modified=False)


def normal(made: Made) -> Half:
    """DerSimonian and Laird's: a normal interval, as if the variance between hosts were known."""
    tau2 = dersimonian_laird(made.estimates, made.variances)
    mean, weights = _weighted(made.estimates, made.variances + tau2[:, None])
    error2 = 1 / weights.sum(1)
    return Half(mean, 1.96 * np.sqrt(error2), 1.96 * np.sqrt(tau2 + error2))


def students(made: Made) -> Half:
    """Student's interval of the estimates, all with equal weight, and his prediction."""
    k = made.estimates.shape[1]
    spread = stats.student_quantile(stats.LEVEL, k - 1) * made.estimates.std(1, ddof=1)
    mean = made.estimates.mean(1)
    return Half(mean, spread / math.sqrt(k), spread * math.sqrt(1 + 1 / k))


METHODS: dict[str, Callable[[Made], Half]] = {
    "ours": ours,
    "own variances alone": own_variances,
    "REML": by_reml,
    "not modified": not_modified,
    "DerSimonian-Laird": normal,
    "Student's, equal weights": students,
}


def dersimonian_laird(estimates: Array, variances: Array) -> Array:
    """Return the variance between hosts by the method of moments, of shape (samples,)."""
    mean, weights = _weighted(estimates, variances)
    q = (weights * (estimates - mean[:, None]) ** 2).sum(1)
    whole = weights.sum(1)
    freedom = estimates.shape[1] - 1
    found: Array = np.maximum(0, (q - freedom) / (whole - (weights**2).sum(1) / whole))
    return found


def _weighted(estimates: Array, variances: Array) -> tuple[Array, Array]:
    weights = 1 / variances
    return (weights * estimates).sum(1) / weights.sum(1), weights


def _knapp_hartung(estimates: Array, variances: Array, tau2: Array, *, modified: bool) -> Half:
    """Return the interval, and Higgins's prediction of a further host's truth by k - 2 degrees."""
    k = estimates.shape[1]
    mean, weights = _weighted(estimates, variances + tau2[:, None])
    scale = (weights * (estimates - mean[:, None]) ** 2).sum(1) / (k - 1)
    error2 = (np.maximum(1, scale) if modified else scale) / weights.sum(1)
    half = stats.student_quantile(stats.LEVEL, k - 1) * np.sqrt(error2)
    wide = stats.student_quantile(stats.LEVEL, k - 2) if k > 2 else math.nan
    return Half(mean, half, wide * np.sqrt(tau2 + error2))


def rates(method: Callable[[Made], Half], k: int, samples: int = SAMPLES) -> dict[str, float]:
    """Return the least shares over all models, and the mean logarithm of the median width.

    Of intervals that hold the mean, and of predictions that hold a further host's truth and the
    estimate of its report.
    """
    held: dict[str, list[float]] = {"mean": [], "truth": [], "estimate": []}
    widths = []
    for blocks, spread, tenfold in itertools.product(BLOCKS, SPREADS, (False, True)):
        made = hosts(k, blocks, spread, tenfold, samples)
        found = method(made)
        widths.append(math.log(float(np.median(found.half))))
        held["mean"].append(float(np.mean(abs(found.mean) <= found.half)))
        for name, further in (("truth", made.further_truth), ("estimate", made.further_estimate)):
            held[name].append(float(np.mean(abs(further - found.mean) <= found.predicted)))
    return {name: min(shares) for name, shares in held.items()} | {
        "log_width": float(np.mean(widths))
    }


def tables(found: dict[int, dict[str, dict[str, float]]]) -> str:
    """Return the rates as text."""
    lines = [
        "Least share over all models of 95 % intervals that hold the mean over hosts (mean), a",
        "further host's truth (truth), and its report's estimate (estimate); width over ours.",
        "REML and 'not modified' predict by Higgins, of the truth alone.",
    ]
    for k, by_method in found.items():
        lines += ["", f"  {k} hosts{'mean':>28}{'truth':>10}{'estimate':>10}{'width':>8}"]
        for name, of in by_method.items():
            width = math.exp(of["log_width"] - by_method["ours"]["log_width"])
            lines.append(
                f"  {name:26}{of['mean']:10.3f}{of['truth']:10.3f}{of['estimate']:10.3f}"
                f"{width:8.2f}"
            )
    return "\n".join(lines)


def promises_kept(found: dict[int, dict[str, dict[str, float]]]) -> bool:
    """Return whether ours hold what they promise, and predictions from three hosts on."""
    return not any(
        broken(1 - by_method["ours"][name], 1 - COVERAGE)
        for k, by_method in found.items()
        for name in (
            ["mean", "truth", "estimate"] if k >= meta_analysis.LEAST_PREDICTED else ["mean"]
        )
    )


def main() -> int:
    """Simulate, print the rates, and return the exit status."""
    found = {k: {name: rates(method, k) for name, method in METHODS.items()} for k in HOSTS}
    print(tables(found))
    if promises_kept(found):
        return 0
    print(f"A bound is missed: coverage {COVERAGE:.0%}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
