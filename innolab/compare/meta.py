"""Several reports of one study as one: how they differ, and what they say together."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from innolab.analysis import claims_together, meta_analysis, stats
from innolab.analysis.claims_together import PooledClaim
from innolab.analysis.outcomes import DECIDED
from innolab.analysis.stats import Interval
from innolab.base.errors import InnolabError, InputError
from innolab.base.units import number
from innolab.compare import eligible, report_differences
from innolab.compare.eligible import Member
from innolab.record.run import Run
from innolab.report import render
from innolab.studies.study import Study


class Disagreement(NamedTuple):
    """Something in which reports differ; `values` has it in words for each of them, in order."""

    kind: report_differences.Kind
    name: str
    where: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Pool:
    """Several reports of one study.

    Attributes
    ----------
    differences : what else differs between them than what was measured
    claims : a row for each claim that the study measures, and each server
    """

    study: Study
    members: Sequence[Member]
    differences: Sequence[Disagreement]
    claims: Sequence[PooledClaim]

    @property
    def together(self) -> list[PooledClaim]:
        """Return the claims of which two reports or more are pooled."""
        return [row for row in self.claims if row.pooled]

    @property
    def alone(self) -> list[PooledClaim]:
        """Return the claims of which there is nothing to pool."""
        return [row for row in self.claims if not row.pooled]

    @property
    def summary(self) -> str:
        """Return in some sentences what the reports say together."""
        rows = self.together
        if not rows:
            return "Of no claim can two of these reports be pooled."
        by = {name: sum(row.outcome == name for row in rows) for name in (*DECIDED, "inconclusive")}
        split = sum(not row.agree for row in self.claims)
        apart = f"{split} were reproduced by one report and contradicted by another."
        return (
            f"{len(rows)} of {len(self.claims)} claims on their servers can be pooled: together "
            f"the reports show {by['reproduced']} of them to be reproduced and "
            f"{by['contradicted']} to be contradicted, and leave {by['inconclusive']} "
            "inconclusive. "
            f"{apart if split else 'No report reproduced what another contradicted.'}"
        )

    @property
    def can_say(self) -> str:
        """Return what so few reports can say, and what they cannot."""
        said = _can_say(len(self.members))
        hosts = [host for member in self.members for host in member.body["hosts"]]
        if all(host == hosts[0] for host in hosts):
            said += (
                " By what these reports record, all are of one host, or of hosts that are alike in "
                "everything: how far others differ, they cannot show."
            )
        return said


def pool(reports: Sequence[Path]) -> Pool:
    """Return what several reports say together.

    Raises
    ------
    InputError
        Where they cannot be pooled, as `poolable.read`.
    """
    study, members = eligible.read(reports)
    return Pool(study, members, _differences(study, members), _claims(study, members))


def interval_text(of: Interval | None) -> str:
    """Return an estimate with its interval as people read them."""
    if of is None:
        return ""
    if not (math.isfinite(of.low) and math.isfinite(of.high)):
        return number(of.estimate)
    return f"{number(of.estimate)} ({number(of.low)} to {number(of.high)})"


def lines(found: Pool) -> list[str]:
    """Return a pool in words, line by line."""
    return [
        *(f"Not the same beside what was measured: {one.kind} {one.name} is "
          f"{', '.join(one.values)}, on {one.where}." for one in found.differences),
        *(_line(row) for row in found.claims),
        found.summary,
        found.can_say,
    ]  # fmt: skip


def between_hosts(row: PooledClaim) -> str:
    """Return how far hosts differ in a claim, in words; empty where nothing is pooled."""
    if row.pooled is None:
        return ""
    tau = f"tau {number(row.pooled.tau)}"
    return f"{tau}, I² {row.pooled.i2:.0%}"


def _line(row: PooledClaim) -> str:
    head = f"{row.claim.id} on {row.server}"
    verdicts = ", ".join(part.outcome for part in row.parts)
    if row.pooled is None:
        return f"{head}: {row.reason} (verdicts: {verdicts})"
    predicted = row.pooled.predicted
    at = f", on a host like these {interval_text(predicted)}" if predicted else ""
    return (
        f"{head}: {row.outcome} by {row.pooled.interval.n} reports, "
        f"{interval_text(row.pooled.interval)}{at}; {between_hosts(row)} "
        f"(verdicts: {verdicts})"
    )


def _can_say(k: int) -> str:
    factor = f"{stats.student_quantile(stats.LEVEL, k - 1):.3g}"
    if k < meta_analysis.LEAST_PREDICTED:
        return (
            f"Two reports leave one degree of freedom: the pooled interval reaches {factor} "
            "standard errors to either side, that of five would reach 2.78. So two can say whether "
            "they agree and where both stand, but hardly decide a claim together; that takes "
            "nothing from the verdict of either, which is of its own host. How far hosts differ "
            "(tau, I²) is a guess from two, and of a third host nothing is predicted: that takes "
            "three reports."
        )
    return (
        f"{k} reports leave {k - 1} degrees of freedom: the pooled interval reaches {factor} "
        "standard errors to either side. It is of the mean over hosts like these; where a further "
        "report of such a host puts its estimate, 19 times in 20, is wider, as hosts differ and "
        "each report errs. Hosts that are not like these are in neither. How far hosts differ "
        "(tau, I²) is known roughly below some ten reports."
    )


def _differences(study: Study, members: Sequence[Member]) -> list[Disagreement]:
    """Return what differs between the reports: a row for each thing that is not as in the first."""
    first, *others = members
    found: dict[tuple[report_differences.Kind, str, str, str], list[str]] = {}
    for place, other in enumerate(others, 1):
        for one in _apart(study, first, other):
            key = one.kind, one.name, one.where, one.first
            found.setdefault(key, [one.first] * len(members))[place] = one.second
    return [
        Disagreement(kind, name, where, tuple(values))
        for (kind, name, where, _), values in found.items()
    ]


def _apart(study: Study, first: Member, other: Member) -> list[report_differences.Difference]:
    both = (first.body, other.body), (first.runs, other.runs)
    try:
        return report_differences.differences(study, *both)
    except (LookupError, TypeError, AttributeError) as error:
        raise InputError(
            f"The manifests of {first.name} and {other.name} cannot be set side by side: what one "
            f"of them says of hosts or builds is damaged ({type(error).__name__}: {error}). Take "
            "the reports from their sources, or see: innolab verify REPORT"
        ) from None


def _claims(study: Study, members: Sequence[Member]) -> list[PooledClaim]:
    figures, units = study.published(), study.units
    servers = list(dict.fromkeys(build for member in members for build in member.plan.builds))
    verdicts = [
        {(v["claim"], v["server"]): v for v in render.read_verdicts(member.folder)}
        for member in members
    ]
    valid = {
        (member.name, server): member.runs.valid.where(_on(server))
        for member in members
        for server in servers
    }
    rows = []
    for server in servers:
        for claim in (one for one in study.claims() if one.holds is not None):
            try:
                parts = [
                    claims_together.part_of(
                        member.name, of.get((claim.id, server), {}), claim,
                        valid[member.name, server], figures, units,
                    )
                    for member, of in zip(members, verdicts, strict=True)
                ]  # fmt: skip
            except (InnolabError, ValueError, ArithmeticError) as error:
                raise InputError(f"{claim.id} on {server} cannot be pooled: {error}") from None
            if any(part.verdict for part in parts):
                rows.append(claims_together.together(claim, server, parts, figures, units))
    return rows


def _on(server: str) -> Callable[[Run], bool]:
    return lambda run: run.factors["server"] == server
