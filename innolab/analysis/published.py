"""The figures that a study's sources published, one a row of its file."""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from innolab.analysis.claims import Claim


class Published(NamedTuple):
    """One row of a study's published figures; `pass_` and `note` where the study has them."""

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


@cache
def published_of(path: Path) -> dict[str, Published]:
    """Return published figures by id, from a CSV file; none where there is no file."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        row["id"]: Published(
            pass_=row.pop("pass", ""),
            **{**row, "value": float(row["value"])},  # type: ignore[arg-type]
        )
        for row in rows
    }


def published_value(figures: Mapping[str, Published], claim: Claim) -> float | None:
    """Return the published value of what a claim is about: a number or a ratio of two figures."""
    source = claim.published
    if source is None:
        return None
    if "value" in source:
        return float(source["value"])
    value = figures[str(source["of"])].value
    return value / figures[str(source["to"])].value if "to" in source else value
