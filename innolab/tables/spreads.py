"""By how much restarts of one arm differ in our own reports, for tables without replicates.

`data/spreads.csv` holds a row for each metric that reports compare, and on what machine; `make
spreads` writes it. A table without replicates borrows the one that a reader names, and none
otherwise: a shared virtual machine says nothing of a dedicated one.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from innolab.base import places, spreadsheet
from innolab.base.errors import InputError
from innolab.base.quoting import shown
from innolab.record.run import Level
from innolab.record.runs import RunSet
from innolab.tables.description import kind_of
from innolab.tables.rankings import Spread, replicate_spread

FILE = places.own("data", "spreads.csv")
_DIGITS = 4


class KnownSpread(NamedTuple):
    """A row of data/spreads.csv.

    Attributes
    ----------
    kind : rate or time
    study, metric, unit : what was measured
    report, day : where, and when that report was made
    machine : that it was measured on
    sd_log : standard deviation between restarts of one arm, of the logarithm
    freedom, arms : its degrees of freedom, and of how many arms
    """

    kind: str
    study: str
    metric: str
    unit: str
    report: str
    day: str
    machine: str
    sd_log: float
    freedom: int
    arms: int

    @property
    def name(self) -> str:
        """Return what a reader calls it by."""
        return f"{self.study}:{self.metric}"

    @property
    def spread(self) -> Spread:
        """Return it as one that a table borrows."""
        return Spread(
            self.sd_log,
            self.freedom,
            self.arms,
            f"borrowed from this collection: restarts of one arm differed by {self.sd_log:.1%} in "
            f"{self.metric} of {self.study}/{self.report} ({self.day}, {self.machine}; {self.arms} "
            f"arms, {self.freedom} degrees of freedom)",
            borrowed=True,
        )


def of_report(
    study: str,
    report: str,
    runs: RunSet,
    compared: Mapping[str, Sequence[str]],
    units: Mapping[str, str],
    machine: str,
) -> list[KnownSpread]:
    """Return the spread of each metric of a report between restarts of one arm.

    Twins are left out: they share a block with their arm.

    Parameters
    ----------
    runs : of the report
    compared : the metrics, with the within-factors of each
    units : of the metrics; those that are neither rates nor times are left out
    machine : that the report is of
    """  # fmt: skip
    rows = []
    for metric, within in compared.items():
        arms: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for run in runs.valid.runs:
            for row in run.observations if not run.twin else ():
                if row.keys() & runs.within == set(within) and float(row.get(metric, 0)) > 0:
                    levels: dict[str, Level] = {**run.factors, **{n: row[n] for n in within}}
                    arms[tuple(levels.items())].append(float(row[metric]))
        kind = kind_of(units[metric])
        if kind and (spread := replicate_spread(list(arms.values()))):
            day = report.rpartition("-")[0]
            sd = round(spread.sd, _DIGITS)
            known = KnownSpread(
                kind, study, metric, units[metric], report, day, machine, sd, spread.freedom,
                spread.arms,
            )  # fmt: skip
            rows.append(known)
    return rows


def read(path: Path = FILE) -> list[KnownSpread]:
    """Return the rows of data/spreads.csv."""
    with path.open(newline="") as file:
        return [
            KnownSpread(
                **{  # type: ignore[arg-type]
                    **row,
                    "sd_log": float(row["sd_log"]),
                    "freedom": int(row["freedom"]),
                    "arms": int(row["arms"]),
                }
            )
            for row in csv.DictReader(file)
        ]


def as_csv(rows: Sequence[KnownSpread]) -> str:
    """Return data/spreads.csv."""
    import pandas as pd

    return spreadsheet.csv_text(pd.DataFrame(rows, columns=list(KnownSpread._fields)))


def named(name: str) -> KnownSpread:
    """Return the spread that a reader chose.

    Raises
    ------
    InputError
        If there is none of this name; lists those that there are, each with its machine.
    """
    known = read()
    if found := next((row for row in known if row.name == name), None):
        return found
    offered = "; ".join(
        f"{row.name}, {row.sd_log:.1%} of a {row.kind} on {row.machine}" for row in known
    )
    raise InputError(
        f"There is no spread {shown(name)} to borrow. There are: {offered}. Nothing was written."
    )
