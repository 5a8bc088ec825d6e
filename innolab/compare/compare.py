"""Reports of one study, two or more: what differs, ratios of the values, verdicts, all together."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from innolab.analysis import claims_together, meta_analysis, stats
from innolab.analysis.claims_together import NONE, PooledClaim
from innolab.analysis.stats import Interval
from innolab.base import memory, units
from innolab.base.errors import InnolabError, InputError
from innolab.compare import members, report_differences
from innolab.compare.members import Member
from innolab.compare.report_differences import ArmKey, Difference
from innolab.record.runs import RunSet
from innolab.report import shipped
from innolab.studies.study import Study

# From how many reports on they are taken together.
LEAST_TOGETHER = meta_analysis.LEAST_PREDICTED
# Of a kind of difference so many are named in a header, and more are counted.
_MOST_NAMED = 3


class Ratio(NamedTuple):
    """A metric of one arm: a report's over the first one's, as of unpaired samples.

    `arm` has its levels as text, those of within-factors included; `key` those of factors alone.
    """

    arm: str
    metric: str
    report: str
    ratio: Interval
    key: ArmKey

    @property
    def differs(self) -> bool:
        """Return whether the interval leaves out 1, which one in twenty does by chance."""
        # So that one value alone, which leaves no interval, does not differ.
        return self.ratio.low > 1 or self.ratio.high < 1


@dataclass(frozen=True)
class ReportComparison:
    """Several reports of one study.

    Attributes
    ----------
    differences : what else differs than what was measured: ratios and verdicts depend on it too
    ratios : a row for each arm and metric that a report and the first measured, largest first
    claims : a row for each claim and server that any of them judged
    """

    study: Study
    members: Sequence[Member]
    differences: Sequence[Difference]
    ratios: Sequence[Ratio]
    claims: Sequence[PooledClaim]

    @property
    def header(self) -> str:
        """Return in a sentence what is compared, and in what else the reports differ."""
        first, *others = (_named(member) for member in self.members)
        kinds = Counter(one.kind for one in self.differences)
        counted = ", ".join(
            f"{one.name} ({', then '.join(one.values)})" if kinds[one.kind] <= _MOST_NAMED
            else f"{kinds[one.kind]} of kind {one.kind}"
            for one in {(d.kind, d.name if kinds[d.kind] <= _MOST_NAMED else ""): d
                        for d in self.differences}.values()
        )  # fmt: skip
        differing = f"They differ in: {counted}" if counted else "Nothing else differs"
        return f"{self.study.name}: {', '.join(others)} over {first}. {differing}."

    @property
    def is_together(self) -> bool:
        """Return whether the reports are enough for a meta-analysis."""
        return len(self.members) >= LEAST_TOGETHER

    @property
    def changed(self) -> list[PooledClaim]:
        """Return the claims whose verdicts differ: turned ones first, then intervals apart."""
        changed = [row for row in self.claims if not is_same(row)]
        return sorted(changed, key=lambda row: (row.agree, overlap(row) is not False))

    @property
    def together(self) -> list[PooledClaim]:
        """Return the claims that the meta-analysis says something of."""
        return [row for row in self.claims if row.pooled]

    def touching(self, row: PooledClaim) -> list[Difference]:
        """Return the differences that touch what a claim is about: these may explain a change."""
        return [one for one in self.differences if one.touches(row.claim, row.server)]

    @property
    def summary(self) -> str:
        """Return in some sentences how far the reports agree, and what they say together."""
        judged = [
            row for row in self.claims if not {"not-run", NONE} & {p.outcome for p in row.parts}
        ]
        if not judged:
            return f"No claim was judged in {'all' if self.is_together else 'both'}."
        same = sum(map(is_same, judged))
        turned = sum(not row.agree for row in judged)
        differing = sum(row.differs for row in self.ratios)
        sentences = [
            f"{same} of {len(judged)} verdicts are the same ({same / len(judged):.0%}), and "
            f"{turned or 'none'} turned from reproduced to contradicted or back. The intervals of "
            f"{differing} of {len(self.ratios)} ratios of values leave out 1; one in twenty does "
            "so by chance."
        ]
        if rows := self.together:
            by = Counter(row.outcome for row in rows)
            sentences.append(
                f"Together the reports show {by['reproduced']} of {len(rows)} claims on their "
                f"servers to be reproduced and {by['contradicted']} to be contradicted, and leave "
                f"{by['inconclusive']} inconclusive."
            )
        return " ".join(sentences)

    @property
    def can_say(self) -> str:
        """Return what so few reports can say together, and what they cannot."""
        k = len(self.members)
        if not self.is_together:
            return (
                "Two reports can say whether they agree and where both are. They hardly decide a "
                "claim together, and say next to nothing of how far hosts differ: a meta-analysis "
                f"takes {LEAST_TOGETHER} reports or more."
            )
        factor = f"{stats.student_quantile(stats.LEVEL, k - 1):.3g}"
        text = (
            f"{k} reports leave {k - 1} degrees of freedom: the interval of all reaches {factor} "
            "standard errors to either side. It is of the mean over hosts like these; where a "
            "further report of such a host puts its estimate, 19 times in 20, is wider, as hosts "
            "differ and each report errs. Hosts that are not like these are in neither. How far "
            "hosts differ (tau, I²) is known roughly below some ten reports."
        )
        hosts = [host for member in self.members for host in member.body["hosts"]]
        if all(host == hosts[0] for host in hosts):
            text += (
                " By what these reports record, all are of one host, or of hosts that are alike in "
                "everything: how far others differ, they cannot show."
            )
        return text


def is_same(row: PooledClaim) -> bool:
    """Return whether all reports have the same verdict on a claim."""
    return len({part.outcome for part in row.parts}) == 1


def overlap(row: PooledClaim) -> bool | None:
    """Return whether the verdicts' intervals have a value in common; None if one is not known."""
    ends = [(part.verdict.get("low"), part.verdict.get("high")) for part in row.parts]
    if any(end is None for end in itertools.chain(*ends)):
        return None
    lows, highs = zip(*ends, strict=True)
    return bool(max(lows) <= min(highs))


@memory.bounded("One of the reports")
def compare(reports: Sequence[Path]) -> ReportComparison:
    """Return what reports of a study have in common, what not, and what they say together.

    Raises
    ------
    InputError
        If they cannot be compared, as `members.read`.
    """
    study, read = members.read(reports)
    return ReportComparison(
        study, read, report_differences.between(study, read),
        sorted(_ratios(study, read), key=_by_size), _claims(study, read),
    )  # fmt: skip


def estimate_text(interval: Interval | None) -> str:
    """Return an estimate with its interval as people read them; empty if there is none."""
    return units.interval_text(*interval[:3]) if interval else ""


def lines(comparison: ReportComparison) -> list[str]:
    """Return a comparison as text, line by line."""
    shown = comparison.claims if comparison.is_together else comparison.changed
    return [
        comparison.header,
        *(f"{row.arm:60} {row.metric:10} "
          + (f"{row.report} " if comparison.is_together else "") + estimate_text(row.ratio)
          for row in comparison.ratios),
        *map(_line, shown),
        *([] if comparison.changed else ["No verdict changed."]),
        *(f"Not the same besides what was measured: {one.kind} {one.name} is "
          f"{', then '.join(one.values)}, on {one.where}." for one in comparison.differences),
        comparison.summary,
        comparison.can_say,
    ]  # fmt: skip


def _named(member: Member) -> str:
    """Return a report by its name, with its effort and whether it is a reference."""
    effort = member.plan.parameters.get("effort") or f"scale {member.plan.parameters['scale']}"
    kind = "the shipped reference, " if shipped.is_reference(member.folder) else ""
    return f"{member.name} ({kind}{effort})"


def _line(row: PooledClaim) -> str:
    head = f"{row.claim.id} on {row.server}: {', then '.join(part.outcome for part in row.parts)}"
    if row.pooled is None:
        return head
    further = row.pooled.predicted
    like_these = f", on a host like these {estimate_text(further)}" if further else ""
    return (
        f"{head}; together {row.outcome} by {row.pooled.interval.n} reports, "
        f"{estimate_text(row.pooled.interval)}{like_these}; {between_hosts(row)}"
    )


def between_hosts(row: PooledClaim) -> str:
    """Return how far hosts differ in a claim; empty if it has no meta-analysis."""
    if row.pooled is None:
        return ""
    return f"tau {units.number(row.pooled.tau)}, I² {row.pooled.i2:.0%}"


def _by_size(row: Ratio) -> tuple[bool, float]:
    """Return a key that sorts what differs first, and the largest factor first among equals."""
    return not row.differs, -abs(math.log(row.ratio.estimate))


def _ratios(study: Study, read: Sequence[Member]) -> list[Ratio]:
    first, *others = read
    rows = []
    for metric, within in study.kind.compared.items():
        before = _by_arm(first.runs.valid, metric, set(within))
        for other in others:
            after = _by_arm(other.runs.valid, metric, set(within))
            for levels in [arm for arm in before if arm in after]:
                if min(*before[levels], *after[levels]) > 0:
                    ratio = stats.independent_ratio(after[levels], before[levels])
                    arm = ", ".join(str(level) for _, level in levels)
                    factors = {name: level for name, level in levels if name not in within}
                    key = report_differences.key_of(factors)
                    rows.append(Ratio(arm, metric, other.name, ratio, key))
    return rows


def _by_arm(runs: RunSet, metric: str, within: set[str]) -> dict[Any, list[float]]:
    """Return a metric's values by the levels of factors and within-factors, sorted by these."""
    values: dict[Any, list[float]] = {}
    for run in (run for run in runs.runs if not run.twin):
        for row in run.observations:
            if metric in row and row.keys() & runs.within == within:
                levels = {**run.factors, **{name: row[name] for name in sorted(within)}}
                values.setdefault(tuple(levels.items()), []).append(float(row[metric]))
    return dict(sorted(values.items(), key=lambda item: str(item[0])))


def _claims(study: Study, read: Sequence[Member]) -> list[PooledClaim]:
    published, unit_of = study.published(), study.kind.units
    verdicts = [{(v["claim"], v["server"]): v for v in member.verdicts} for member in read]
    rows = []
    for server in dict.fromkeys(server for own in verdicts for _, server in own):
        valid = [_of_server(member, server) for member in read]
        for claim in study.claims():
            key = claim.id, server
            if not any(key in own for own in verdicts):
                continue
            try:
                parts = [
                    claims_together.part_of(
                        member.name, own.get(key, {}), claim, runs, published, unit_of
                    )
                    for member, own, runs in zip(read, verdicts, valid, strict=True)
                ]
                row = claims_together.together(
                    claim, server, parts, published, unit_of, least=LEAST_TOGETHER
                )
            except (InnolabError, ValueError, ArithmeticError) as error:
                raise InputError(f"{claim.id} on {server} cannot be compared: {error}") from None
            rows.append(row)
    return rows


def _of_server(member: Member, server: str) -> RunSet:
    return member.runs.valid.where(lambda run: run.factors["server"] == server)
