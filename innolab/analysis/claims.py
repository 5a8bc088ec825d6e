"""Published claims as predicates, and the verdicts that recorded runs support."""

import csv
import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict

from innolab.analysis import cache_misses, stats
from innolab.base.errors import InnolabError
from innolab.base.provenance import ROOT
from innolab.record.run import Run
from innolab.record.runs import RunSet

DATA = ROOT / "data"
_DIGITS = 6
# Runs with O_DIRECT, which need little new memory, differ by 0.07 on a host where others differ by
# 0.4. Set after seeing those runs; it adds words to a verdict and never changes one.
KERNEL_SHARE_SPREAD_DOUBTED = 0.15

_PAGES_READ = "read_only_pages_read_per_tx"
# Point C: data three times the pool.
_C = 1 / 3
# The miss ratio hardly depends on the number of pages that the law is spread over.
_PAGES_OF_LAW = 20_000
# The law is an approximation that is off by a fifth at most on simulated pools.
_UNSETTLED, _FEW_PAGES = 2.0, 0.05

Outcome = Literal["reproduced", "contradicted", "inconclusive", "not-run"]


class Published(NamedTuple):
    """One row of data/published/<study>.csv; `pass_` and `note` where the study has them."""

    id: str
    case: str
    series: str
    pass_: str
    quantity: str
    value: float
    unit: str
    stands: str
    seed: str
    where: str
    note: str = ""


class Holds(BaseModel):
    """The values of the estimate for which a claim is true."""

    model_config = ConfigDict(extra="forbid")

    at_least: float | None = None
    at_most: float | None = None
    about_published: float | None = None

    def bounds(self, published: float | None) -> tuple[float, float]:
        """Return the lowest and the highest value for which the claim is true."""
        if self.about_published is not None:
            if published is None:
                raise InnolabError("A claim about a published value names none.")
            width = 1 + self.about_published
            return published / width, published * width
        low = -math.inf if self.at_least is None else self.at_least
        return low, math.inf if self.at_most is None else self.at_most


class Claim(BaseModel):
    """One published statement as data. See the head of data/claims/multi-buffer-pool.yml."""

    model_config = ConfigDict(extra="forbid")

    id: str
    says: str
    stands: Literal["published", "corrected", "retracted", "hypothesis"]
    published: dict[str, str | float] | None = None
    measure: dict[str, Any] | None = None
    holds: Holds | None = None
    not_measured: str | None = None
    # What it means where the arms ran, or could not, and no run has the metric.
    lacking: str | None = None


class Verdict(BaseModel):
    """What the runs of one server say of one claim. An entry of verdicts.json."""

    claim: str
    server: str
    says: str
    stands: str
    verdict: Outcome
    published: float | None
    estimate: float | None
    low: float | None
    high: float | None
    level: float
    n: int
    reason: str
    caveat: str | None = None


@cache
def published(study: str) -> dict[str, Published]:
    """Return a study's published figures by id."""
    with (DATA / "published" / f"{study}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["id"]: Published(
            pass_=row.pop("pass", ""),
            **{**row, "value": float(row["value"])},  # type: ignore[arg-type]
        )
        for row in rows
    }


@cache
def claims(study: str) -> list[Claim]:
    """Return a study's claims in the order of their file."""
    entries = yaml.safe_load(_claims_file(study).read_text())
    return [Claim.model_validate(one) for entry in entries for one in _repeated(entry)]


def sha256(study: str) -> str:
    """Return the digest of a study's file of claims."""
    return hashlib.sha256(_claims_file(study).read_bytes()).hexdigest()


def _claims_file(study: str) -> Path:
    return DATA / "claims" / f"{study}.yml"


def _repeated(entry: dict[str, Any]) -> list[Any]:
    """Return an entry once for each pair of its `each`: {m} is the name, {mode} the value.

    >>> _repeated({"id": "A1-{m}", "each": {"ro": "read_only"}, "measure": {"ratio": "{mode}_tps"}})
    [{'id': 'A1-ro', 'measure': {'ratio': 'read_only_tps'}}]
    """
    pairs = entry.pop("each", None)
    if pairs is None:
        return [entry]
    return [_filled(entry, {"{m}": name, "{mode}": value}) for name, value in pairs.items()]


def _filled(part: Any, words: Mapping[str, str]) -> Any:
    if isinstance(part, dict):
        return {name: _filled(value, words) for name, value in part.items()}
    if isinstance(part, str):
        for mark, word in words.items():
            part = part.replace(mark, word)
    return part


def published_value(study: str, claim: Claim) -> float | None:
    """Return the published value of what a claim is about: a number or a ratio of two figures."""
    source = claim.published
    if source is None:
        return None
    if "value" in source:
        return float(source["value"])
    figures = published(study)
    value = figures[str(source["of"])].value
    return value / figures[str(source["to"])].value if "to" in source else value


def verdicts(
    runs: RunSet,
    servers: list[str],
    unavailable: Mapping[str, str],
    missing_devices: Mapping[str, str] | None = None,
) -> list[Verdict]:
    """Return every claim's verdict on every server, those that could not be had included.

    `missing_devices` says of devices that the runs lack why they do.
    """
    missing = missing_devices or {}
    study = runs.study.name
    result = []
    for server in servers:
        of_server = runs.where(_on(server))
        if differing := of_server.undeclared_differences():
            reason = f"arms differ beside their factors, in {', '.join(differing)}"
            result += [_not_run(study, claim, server, reason) for claim in claims(study)]
        else:
            result += [_judge(study, claim, server, of_server, missing) for claim in claims(study)]
    for server, why in unavailable.items():
        reason = f"the build could not be had: {why}"
        result += [_not_run(study, claim, server, reason) for claim in claims(study)]
    return result


def _on(server: str) -> Callable[[Run], bool]:
    return lambda run: run.factors["server"] == server


def _judge(
    study: str, claim: Claim, server: str, runs: RunSet, missing: Mapping[str, str]
) -> Verdict:
    if claim.not_measured is not None:
        return _not_run(study, claim, server, claim.not_measured)
    if claim.measure is None or claim.holds is None:
        raise InnolabError(f"The claim {claim.id} has neither a measure nor a reason for none.")
    interval = _estimate(claim.measure, runs.valid)
    if interval is None:
        why = _why_nothing(runs, claim.measure, missing, claim.lacking)
        return _not_run(study, claim, server, why)
    value = published_value(study, claim)
    outcome, reason = decide(interval, *claim.holds.bounds(value))
    unsettled = _unsettled(claim.measure, runs.valid)
    if outcome == "contradicted" and unsettled:
        outcome, reason = "inconclusive", f"{reason}; but {unsettled}"
    return Verdict(
        **_head(study, claim, server),
        verdict=outcome,
        estimate=_rounded(interval.estimate),
        low=_rounded(interval.low),
        high=_rounded(interval.high),
        level=interval.level,
        n=interval.n,
        reason=reason,
        caveat=unsettled or _caveat(claim.measure, runs.valid),
    )


def _caveat(measure: Mapping[str, Any], runs: RunSet) -> str | None:
    """Return what, beside the factors, may have made this estimate, or None."""
    metric = str(measure.get("ratio"))
    if metric == "pass1_s":
        return _host_caveat(measure, runs)
    if metric.endswith("_tps"):
        return _unsteady_caveat(metric.removesuffix("_tps"), _cases(measure), runs)
    return None


def _unsettled(measure: Mapping[str, Any], runs: RunSet) -> str | None:
    """Return which arm's pool had not learnt yet what skewed access wants, or None.

    Throughput may be even over a window while the pool still fills with the wanted pages. Such an
    arm is slower than it will be, so it contradicts nothing. The pages that uniform access reads
    at C tell how many a transaction asks for, the law of access how many of them miss.
    """
    if measure.get("ratio") != "read_only_tps":
        return None
    for case in sorted(_cases(measure)):
        device, access, _ = case.split("/", 2)
        read = list(runs.values(_PAGES_READ, case=case).values())
        asked = list(runs.values(_PAGES_READ, case=f"{device}/uniform/C").values())
        if access == "uniform" or not read or not asked:
            continue
        run = next(run for run in runs.runs if run.factors["case"] == case)
        miss = cache_misses.miss_ratio(
            access,
            float(run.factors["pool_ratio"]),
            _PAGES_OF_LAW,
            run.conditions["dataset"]["rows"],
        )
        found = sum(read) / len(read)
        settled = sum(asked) / len(asked) / (1 - _C) * miss
        if found > _UNSETTLED * settled + _FEW_PAGES:
            return (
                f"the pool of {case} had not settled: it read {found:.2g} pages a transaction, "
                f"where {settled:.2g} would miss once it has learnt which are wanted"
            )
    return None


def _unsteady_caveat(mode: str, cases: set[str], runs: RunSet) -> str | None:
    """Return how many of the runs had not reached a steady state when they were measured."""
    of = [
        run.conditions["steady"][mode]["reached"]
        for run in runs.runs
        if run.factors["case"] in cases and mode in run.conditions["steady"]
    ]
    drifting = of.count(False)
    if not drifting:
        return None
    return f"{drifting} of {len(of)} {mode} runs had not reached a steady state"


def _host_caveat(measure: Mapping[str, Any], runs: RunSet) -> str | None:
    """Return what of the host made equal cold runs differ.

    Equal runs ask the kernel for equal work. Where its share of the CPU time differs between them,
    the host made the difference: such as a hypervisor that must find again the idle memory it took
    from its guest, which falls on cold passes, the more the larger the pool.
    """
    spans = []
    for case in sorted(_cases(measure)):
        kernel = runs.values("pass1_kernel_cpu_s", case=case)
        total = runs.values("pass1_mysqld_cpu_s", case=case)
        shares = [kernel[block] / max(total[block], 0.01) for block in kernel]
        spans.append((max(shares) - min(shares), case, min(shares), max(shares)))
    spread, case, low, high = max(spans)
    if spread < KERNEL_SHARE_SPREAD_DOUBTED:
        return None
    return (
        f"equal runs of {case} spent {low:.0%} to {high:.0%} of the first pass's CPU time in the "
        "kernel, which no factor explains"
    )


def decide(interval: stats.Interval, low: float, high: float) -> tuple[Outcome, str]:
    """Return the verdict that an interval supports on "the value lies from low to high", and why.

    >>> from innolab.analysis.stats import Interval
    >>> decide(Interval(1.5, 1.4, 1.6, 5), 1.0, float("inf"))[0]
    'reproduced'
    >>> decide(Interval(1.5, 0.9, 1.6, 5), 1.0, float("inf"))[0]
    'inconclusive'
    """
    claimed = _range_text(low, high)
    if math.isnan(interval.low):
        return "inconclusive", "one valid replicate leaves no interval"
    found = _range_text(interval.low, interval.high)
    if low <= interval.low and interval.high <= high:
        return "reproduced", f"measured {found}, wholly within the claim's {claimed}"
    if interval.high < low or high < interval.low:
        return "contradicted", f"measured {found}, wholly outside the claim's {claimed}"
    return "inconclusive", f"measured {found}, partly within the claim's {claimed}"


def _estimate(measure: Mapping[str, Any], runs: RunSet) -> stats.Interval | None:
    if "ratio" in measure:
        top, bottom = runs.pairs(
            measure["ratio"],
            {"case": measure["of"]},
            {"case": measure["to"]},
            measure.get("to_metric"),
        )
        return stats.paired_ratio(top, bottom) if top else None
    if "mean" in measure:
        values = list(runs.values(measure["mean"], case=measure["of"]).values())
        return stats.arithmetic_mean(values) if values else None
    per_case = [runs.values(measure["largest"], case=case) for case in measure["of"]]
    if not all(per_case):
        return None
    largest = max(max(values.values()) for values in per_case)
    return stats.Interval(largest, largest, largest, min(len(values) for values in per_case))


def _cases(measure: Mapping[str, Any]) -> set[str]:
    of = measure["of"]
    return {*(of if isinstance(of, list) else [of]), *([measure["to"]] if "to" in measure else [])}


def _why_nothing(
    runs: RunSet, measure: Mapping[str, Any], missing: Mapping[str, str], lacking: str | None
) -> str:
    """Return why the runs support no verdict: a device not there, a failure, an invalid check."""
    cases = _cases(measure)
    load = str(measure.get("ratio", "")).removesuffix("_tps")
    # Elsewhere the case names the load.
    by_load = load in ("read_only", "read_write")
    for run in runs.runs:
        of_load = not by_load or run.factors["load"] == load
        if run.factors["case"] in cases and of_load and not run.valid:
            why = run.error or next(c.says for c in run.checks if c.result == "invalid")
            return f"too few valid runs of {run.factors['case']}: {why}"
    for device, why in missing.items():
        if any(case.startswith(f"{device}/") for case in cases):
            return f"{device} did not run: {why}"
    if lacking:
        return lacking
    if any(run.factors["case"] in cases for run in runs.runs):
        return "no run of the arms that it compares has the metric"
    return "no run of the arms that it compares"


def _not_run(study: str, claim: Claim, server: str, reason: str) -> Verdict:
    return Verdict(
        **_head(study, claim, server),
        verdict="not-run",
        estimate=None,
        low=None,
        high=None,
        level=stats.LEVEL,
        n=0,
        reason=reason,
    )


def _head(study: str, claim: Claim, server: str) -> dict[str, Any]:
    value = published_value(study, claim)
    return {
        "claim": claim.id,
        "server": server,
        "says": claim.says,
        "stands": claim.stands,
        "published": None if value is None else _rounded(value),
    }


def _rounded(value: float) -> float | None:
    """Six significant digits: more would differ in the last place from one CPU to the next."""
    return None if math.isnan(value) else float(f"{value:.{_DIGITS}g}")


def _range_text(low: float, high: float) -> str:
    if low == high:
        return f"{low:.4g}"
    if math.isinf(low):
        return f"at most {high:.4g}"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"{low:.4g} to {high:.4g}"
