"""Set two reports of one study side by side: what differs, ratios of the values, the verdicts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from innolab import studies
from innolab.analysis import stats
from innolab.analysis.claims import Claim
from innolab.analysis.outcomes import DECIDED
from innolab.analysis.stats import Interval
from innolab.base import memory
from innolab.base.errors import InputError
from innolab.compare import report_differences
from innolab.compare.report_differences import ArmKey, Difference
from innolab.record.plan import Plan
from innolab.record.runs import RunSet
from innolab.report import manifest, render
from innolab.studies.study import Study

# What a claim that only one of two reports has is in the other.
NONE = "none"


class Ratio(NamedTuple):
    """A metric of one arm: the second report's over the first's, as of unpaired samples.

    `arm` has its levels in words, those of within-factors included; `key` those of factors alone.
    """

    arm: str
    metric: str
    ratio: Interval
    key: ArmKey

    @property
    def differs(self) -> bool:
        """Return whether the interval leaves out 1, which one in twenty does by chance."""
        # So that one value alone, which leaves no interval, does not differ.
        return self.ratio.low > 1 or self.ratio.high < 1


class Pair(NamedTuple):
    """A claim's verdicts on one server, as the reports have them; empty where one has none."""

    claim: str
    server: str
    first: Mapping[str, Any]
    second: Mapping[str, Any]

    @property
    def verdicts(self) -> tuple[str, str]:
        """Return both verdicts in a word each."""
        return self.first.get("verdict", NONE), self.second.get("verdict", NONE)

    @property
    def same(self) -> bool:
        """Return whether both say the same."""
        return len(set(self.verdicts)) == 1

    @property
    def turned(self) -> bool:
        """Return whether one reproduced what the other contradicted."""
        return not self.same and set(self.verdicts) <= set(DECIDED)

    @property
    def overlap(self) -> bool | None:
        """Return whether both intervals have a value in common; None where one has no interval."""
        if any(of.get(end) is None for of in (self.first, self.second) for end in ("low", "high")):
            return None
        lowest = max(of["low"] for of in (self.first, self.second))
        return bool(lowest <= min(of["high"] for of in (self.first, self.second)))


@dataclass(frozen=True)
class ReportComparison:
    """Two reports of one study.

    Attributes
    ----------
    first, second : their folders
    runs : the valid runs of each
    differences : what else differs, which ratios and verdicts then depend on too
    ratios : a row for each arm and metric that both measured
    pairs : a row for each claim and server that either judged
    """

    study: Study
    first: Path
    second: Path
    runs: tuple[RunSet, RunSet]
    differences: list[Difference]
    ratios: list[Ratio]
    pairs: list[Pair]

    @property
    def changed(self) -> list[Pair]:
        """Return the verdicts that are not the same, those first that turned round."""
        return sorted((pair for pair in self.pairs if not pair.same), key=lambda p: not p.turned)

    @cached_property
    def claims(self) -> Mapping[str, Claim]:
        """Return today's claims of the study by id."""
        return {claim.id: claim for claim in self.study.claims()}

    def touching(self, pair: Pair) -> list[Difference]:
        """Return the differences that touch what a claim is about: these may explain a change."""
        claim = self.claims.get(pair.claim)
        return [one for one in self.differences if one.touches(claim, pair.server)]

    @property
    def summary(self) -> str:
        """Return in a sentence how far the two agree."""
        judged = [p for p in self.pairs if not {"not-run", NONE} & set(p.verdicts)]
        if not judged:
            return "No claim was judged in both."
        same = sum(pair.same for pair in judged)
        turned = sum(pair.turned for pair in judged)
        apart = sum(row.differs for row in self.ratios)
        return (
            f"{same} of {len(judged)} verdicts are the same ({same / len(judged):.0%}), and "
            f"{turned or 'none'} turned from reproduced to contradicted or back. The intervals of "
            f"{apart} of {len(self.ratios)} ratios of values leave out 1; one in twenty does so by "
            "chance."
        )


@memory.bounded("One of the reports")
def compare(first: Path, second: Path) -> ReportComparison:
    """Return what two reports have in common, and what not.

    Raises
    ------
    InputError
        Where the two are of different studies or measured different things.
    """
    plans = [Plan.read(folder) for folder in (first, second)]
    if plans[0].study != plans[1].study:
        raise InputError(
            f"{first.name} is of {plans[0].study} and {second.name} of {plans[1].study}. Only "
            "reports of one study can be compared."
        )
    if plans[0].spec_sha256 != plans[1].spec_sha256:
        raise InputError(
            f"{first.name} and {second.name} measured different things (their spec_sha256 differ: "
            "another size, query or revision), so a ratio of the two would mean nothing."
        )
    study = studies.find(plans[0].study)
    runs = study.read(first), study.read(second)
    bodies = manifest.read(first), manifest.read(second)
    valid = runs[0].valid, runs[1].valid
    return ReportComparison(
        study, first, second, valid, report_differences.differences(study, bodies, runs),
        _ratios(study, *valid), _pairs(first, second),
    )  # fmt: skip


def lines(found: ReportComparison) -> list[str]:
    """Return a comparison in words, line by line."""
    return [
        *(f"Not the same beside what was measured: {says}."
          for says in report_differences.words(found.differences)),
        *(f"{arm:60} {metric:10} {ratio.estimate:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
          for arm, metric, ratio, _ in found.ratios),
        *(f"{pair.claim} on {pair.server}: {', then '.join(pair.verdicts)}"
          for pair in found.changed),
        *([] if found.changed else ["No verdict changed."]),
        found.summary,
    ]  # fmt: skip


def _ratios(study: Study, first: RunSet, second: RunSet) -> list[Ratio]:
    rows = []
    for metric, within in study.compared.items():
        old, new = (_by_arm(runs, metric, set(within)) for runs in (first, second))
        for levels in [arm for arm in old if arm in new]:
            if min(*old[levels], *new[levels]) > 0:
                ratio = stats.independent_ratio(new[levels], old[levels])
                said = ", ".join(str(level) for _, level in levels)
                key = report_differences.key_of(
                    {n: level for n, level in levels if n not in within}
                )
                rows.append(Ratio(said, metric, ratio, key))
    return rows


def _by_arm(runs: RunSet, metric: str, within: set[str]) -> dict[Any, list[float]]:
    """Return a metric's values by the levels of factors and within-factors, sorted by these."""
    found: dict[Any, list[float]] = {}
    for run in (run for run in runs.runs if not run.twin):
        for row in run.observations:
            if metric in row and row.keys() & runs.within == within:
                levels = {**run.factors, **{name: row[name] for name in sorted(within)}}
                found.setdefault(tuple(levels.items()), []).append(float(row[metric]))
    return dict(sorted(found.items(), key=lambda item: str(item[0])))


def _pairs(first: Path, second: Path) -> list[Pair]:
    """Return the verdicts of both, in the order of the second's claims."""
    old, new = (
        {(v["claim"], v["server"]): v for v in render.read_verdicts(report)}
        for report in (first, second)
    )
    return [Pair(*key, old.get(key, {}), new.get(key, {})) for key in {**new, **old}]
