"""The page of several reports of one study as one."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from innolab.analysis.claims_together import Part, PooledClaim
from innolab.base.units import bytes_text
from innolab.compare import forest_plot
from innolab.compare.eligible import Member
from innolab.compare.meta import Pool, between_hosts, interval_text
from innolab.report import folders, pages, render

_DIGITS = 8


def write(found: Pool) -> Path:
    """Write the page of a pool, with a figure for each claim, and return its path.

    It lies below the study in the reports' folder, under a name that the same reports give again in
    any order. One that is there is replaced: it follows from sealed reports.

    Raises
    ------
    InputError
        Where the reports' folder cannot be written.
    """
    folder = place(found)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        claims = [_claim(found, rows, folder) for rows in _by_claim(found)]
    except OSError as error:
        raise pages.cannot_write(folder, error) from None
    return pages.write(
        folder / render.PAGE_FILE,
        "pool.html.j2",
        title=found.study.title,
        members=[_member(member, folder) for member in found.members],
        summary=found.summary,
        can_say=found.can_say,
        differences=found.differences,
        rows=[_row(row) for row in found.together],
        claims=claims,
        alone=[_row(row) for row in found.alone],
    )


def place(found: Pool) -> Path:
    """Return the folder of a pool's page, named by how many reports and a digest of their seals."""
    seals = sorted(member.body["seal"] for member in found.members)
    digest = hashlib.sha256("".join(seals).encode()).hexdigest()
    return folders.pool(found.study.name, f"{len(seals)}-reports-{digest[:_DIGITS]}")


def _by_claim(found: Pool) -> list[list[PooledClaim]]:
    """Return the rows that are pooled, those of one claim together, in the order of the claims."""
    order = [claim.id for claim in found.study.claims()]
    rows = sorted(found.together, key=lambda row: order.index(row.claim.id))
    return [list(of) for _, of in itertools.groupby(rows, key=lambda row: row.claim.id)]


def _member(member: Member, folder: Path) -> dict[str, Any]:
    study = folder.parent.parent
    body, parameters = member.body, member.plan.parameters
    return {
        "name": member.name,
        "link": f"../../{member.folder.name}/{render.PAGE_FILE}"
        if member.folder.parent == study
        else "",
        "hosts": "; ".join(_host(host) for host in body["hosts"]),
        "effort": parameters.get("effort") or f"of scale {parameters['scale']}",
        "runs": f"{body['runs'].get('valid')} of {len(member.runs.runs)}",
        "innolab": ", ".join(
            f"{by['version']} ({(by['commit'] or 'no commit')[:_DIGITS]})"
            for by in body["measured_by"]
        ),
    }


def _host(host: Mapping[str, Any]) -> str:
    """Return a host in few words; what else differs has a table of its own."""
    said = [str(host.get("cpu") or "unknown processor"), f"{host.get('cores')} cores"]
    if isinstance(memory := host.get("memory_bytes"), int):
        said.append(bytes_text(memory))
    return ", ".join(said)


def _claim(found: Pool, rows: list[PooledClaim], folder: Path) -> dict[str, Any]:
    """Return a claim with its figure, and what each report has of it on each server."""
    claim = rows[0].claim
    return {
        "id": claim.id,
        "anchor": _anchor(rows[0]),
        "says": claim.says,
        "figure": forest_plot.draw(rows, found.study.units, folder),
        "rows": [_row(row) | {"parts": [_part(row, part) for part in row.parts]} for row in rows],
    }


def _row(row: PooledClaim) -> dict[str, Any]:
    counted = Counter(part.outcome for part in row.parts)
    predicted = row.pooled.predicted if row.pooled else None
    return {
        "claim": row.claim.id,
        "anchor": _anchor(row),
        "says": row.claim.says,
        "server": row.server,
        "reports": len(row.entered),
        "pooled": interval_text(row.pooled.interval) if row.pooled else "",
        "predicted": interval_text(predicted) or "needs three reports",
        "hosts": between_hosts(row),
        "outcome": row.outcome,
        "reason": row.reason,
        "verdicts": [f"{n} {verdict.replace('-', ' ')}" for verdict, n in counted.items()],
        "by_report": [
            {"name": part.report, "verdict": part.outcome, "why": part.why_not or ""}
            for part in row.parts
        ],
    }


def _part(row: PooledClaim, part: Part) -> dict[str, Any]:
    weight = row.weight(part)
    return {
        "name": part.report,
        "verdict": part.outcome,
        "reason": part.verdict.get("reason", ""),
        "interval": interval_text(part.interval),
        "blocks": part.interval.n if part.interval else "",
        "weight": "" if weight is None else f"{weight:.0%}",
        "why_not": part.why_not or "",
    }


def _anchor(row: PooledClaim) -> str:
    return forest_plot.figure_name(row.claim).replace("pooled-", "claim-", 1)
