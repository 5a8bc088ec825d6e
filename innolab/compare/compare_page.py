"""The page of several reports of one study, side by side."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from innolab.analysis.claims_together import Part, PooledClaim
from innolab.base import units
from innolab.compare import forest_plot, overlay
from innolab.compare.compare import (
    ReportComparison,
    between_hosts,
    estimate_text,
    is_same,
    overlap,
)
from innolab.compare.members import Member
from innolab.report import figures, folders, pages, render

_MOST_NAMED = 12
_DIGITS = 8


def write(comparison: ReportComparison) -> Path:
    """Write the page of a comparison, with its figures, and return its path.

    It is below the study in the reports' folder, under a name that the same reports give again. One
    that is there is replaced: it follows from sealed reports.

    Raises
    ------
    InputError
        If the reports' folder cannot be written.
    """
    folder = place(comparison)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        claims = [_claim(comparison, rows, folder) for rows in _by_claim(comparison)]
        by_second = overlay.draw(comparison, folder)
    except OSError as error:
        raise pages.cannot_write(folder, error) from None
    return pages.write(
        folder / render.PAGE_FILE,
        "compare.html.j2",
        title=comparison.study.title,
        members=[_member(member, folder) for member in comparison.members],
        header=comparison.header,
        summary=comparison.summary,
        can_say=comparison.can_say,
        is_together=comparison.is_together,
        differences=_differences(comparison),
        changed=[
            _row(row) | {"id": _id(row), "explained": explained(comparison, row)}
            for row in comparison.changed
        ],
        together=[_row(row) for row in comparison.together],
        claims=claims,
        undrawn=[_row(row) for row in comparison.claims if not forest_plot.is_drawable(row)],
        overlaid=by_second,
        ratios=[(row, estimate_text(row.ratio)) for row in comparison.ratios],
    )


def place(comparison: ReportComparison) -> Path:
    """Return the folder of a page: of two by their versions, of more by a digest of their seals."""
    versions = [member.folder.name for member in comparison.members]
    name = "_".join(versions)
    if comparison.is_together or versions[0] == versions[1]:
        seals = sorted(member.body["seal"] for member in comparison.members)
        digest = hashlib.sha256("".join(seals).encode()).hexdigest()
        name = f"{len(seals)}-reports-{digest[:_DIGITS]}"
    return folders.comparison(comparison.study.name, name)


def _member(member: Member, folder: Path) -> dict[str, Any]:
    body, parameters = member.body, member.plan.parameters
    of_study = member.folder.parent == folder.parent.parent
    return {
        "name": member.name,
        "link": f"../../{member.folder.name}/{render.PAGE_FILE}" if of_study else "",
        "hosts": "; ".join(_host(host) for host in body["hosts"]),
        "effort": parameters.get("effort") or f"of scale {parameters['scale']}",
        "runs": f"{body['runs'].get('valid')} of {len(member.runs.runs)}",
        "innolab": ", ".join(
            f"{by['version']} ({(by['commit'] or 'no commit')[:_DIGITS]})"
            for by in body["measured_by"]
        ),
    }


def _host(host: Mapping[str, Any]) -> str:
    """Return a host in few words; what else differs has a separate table."""
    facts = [str(host.get("cpu") or "unknown processor"), f"{host.get('cores')} cores"]
    if isinstance(memory := host.get("memory_bytes"), int):
        facts.append(units.bytes_text(memory))
    return ", ".join(facts)


def _differences(comparison: ReportComparison) -> list[dict[str, Any]]:
    """Return a row for each difference with the claims that it touches: the most specific first.

    Of one kind, the one that touches the most changed verdicts. One of all arms names none of them.
    """
    rows = []
    for kind, of_kind in itertools.groupby(comparison.differences, key=lambda one: one.kind):
        touched = [
            (one, [row for row in comparison.claims if one.touches(row.claim, row.server)])
            for one in of_kind
        ]
        of_this_kind = [
            {
                "kind": kind,
                "difference": one,
                "is_general": one.server is None,
                "changed": [_row(row) | {"id": _id(row)} for row in claims if not is_same(row)],
                "kept": _named([row for row in claims if is_same(row)]) if one.arms else "",
            }
            for one, claims in touched
        ]
        rows += sorted(of_this_kind, key=lambda row: -len(row["changed"]))
    return rows


def _named(rows: Sequence[PooledClaim]) -> str:
    """Return the ids of claims, the first of many."""
    names = list(dict.fromkeys(row.claim.id for row in rows))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _id(row: PooledClaim) -> str:
    return figures.file_name(f"changed-{row.claim.id}-{row.server}")


def explained(comparison: ReportComparison, row: PooledClaim) -> str:
    """Return what may explain a changed verdict, noise among it."""
    names = [f"{one.kind} {one.name}" for one in comparison.touching(row)]
    touching = f"May be explained by: {', '.join(names)}. " if names else ""
    match overlap(row):
        case True:
            return f"{touching}The intervals overlap: it may be noise alone."
        case None:
            return f"{touching}One of the reports has no interval."
        case _:
            return f"{touching}The intervals do not overlap, which noise alone seldom does."


def _by_claim(comparison: ReportComparison) -> list[list[PooledClaim]]:
    """Return the rows that can be drawn, claim by claim in their order."""
    order = [claim.id for claim in comparison.study.claims()]
    rows = sorted(
        filter(forest_plot.is_drawable, comparison.claims),
        key=lambda row: order.index(row.claim.id),
    )
    return [list(of) for _, of in itertools.groupby(rows, key=lambda row: row.claim.id)]


def _claim(
    comparison: ReportComparison, rows: Sequence[PooledClaim], folder: Path
) -> dict[str, Any]:
    """Return a claim with its figure, and what each report has of it on each server."""
    return {
        "id": rows[0].claim.id,
        "anchor": _anchor(rows[0]),
        "says": rows[0].claim.says,
        "figure": forest_plot.draw(rows, comparison.study.kind.units, folder),
        "rows": [_row(row) for row in rows],
    }


def _anchor(row: PooledClaim) -> str:
    return figures.file_name(f"claim-{row.claim.id}")


def _row(row: PooledClaim) -> dict[str, Any]:
    counted = Counter(part.outcome for part in row.parts)
    return {
        "claim": row.claim.id,
        "anchor": _anchor(row) if forest_plot.is_drawable(row) else "",
        "says": row.claim.says,
        "server": row.server,
        "turned": not row.agree,
        "together": estimate_text(row.pooled.interval) if row.pooled else "",
        "predicted": estimate_text(row.pooled.predicted) if row.pooled else "",
        "hosts": between_hosts(row),
        "outcome": row.outcome,
        "reason": row.reason,
        "entered": len(row.entered),
        "verdicts": [f"{n} {verdict.replace('-', ' ')}" for verdict, n in counted.items()],
        "parts": [_part(row, part) for part in row.parts],
    }


def _part(row: PooledClaim, part: Part) -> dict[str, Any]:
    weight = row.weight(part)
    return {
        "name": part.report,
        "verdict": part.outcome,
        "reason": part.verdict.get("reason", ""),
        "judged_by": units.interval_text(
            *(part.verdict.get(end) for end in ("estimate", "low", "high"))
        ),
        "interval": estimate_text(part.interval),
        "blocks": part.interval.n if part.interval else "",
        "weight": "" if weight is None else f"{weight:.0%}",
        "why_not": part.why_not or "",
    }
