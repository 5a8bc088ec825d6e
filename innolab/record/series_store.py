"""Where the series of a report's trials are: a file each while it is measured, then one file.

A run names its series by the path that it had while it was measured. In the one file that path is
the key: the trial's number is in it, and a column of the file has that number.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from innolab.base import files
from innolab.record import series_form
from innolab.record.run import Run

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow

FOLDER, FILE = "series", "series.parquet"
_TRIAL = "trial"


def path_of(trial: int) -> str:
    """Return what a run names as the series of its trial."""
    return f"{FOLDER}/{trial:04d}.parquet"


def merge(report: Path) -> None:
    """Put the series of all trials into one file, if they are in a file each.

    A file that is there already is whole, and was left by a process that was killed afterwards.
    """
    import pyarrow
    from pyarrow import parquet

    paths = sorted((report / FOLDER).glob("*.parquet"), key=lambda path: int(path.stem))
    if (report / FILE).exists() or not paths:
        shutil.rmtree(report / FOLDER, ignore_errors=True)
        return
    parts = []
    for path in paths:
        part = parquet.read_table(path)
        trial = pyarrow.array([int(path.stem)] * len(part), pyarrow.int64())
        parts.append(part.add_column(0, _TRIAL, trial))
    # What one trial counted and another did not is empty there.
    whole = pyarrow.concat_tables(parts, promote_options="permissive")
    with files.replaced(report / FILE) as half:
        parquet.write_table(whole.replace_schema_metadata(None), half)
    shutil.rmtree(report / FOLDER)


class SeriesStore:
    """Reads the series of a report's trials, in either layout.

    Parameters
    ----------
    report : a report's folder, whose series have been found to be of the form that they should be
    """

    def __init__(self, report: Path) -> None:
        self._report = report
        self._merged: dict[int, pyarrow.Table] | None = None

    @property
    def names(self) -> set[str]:
        """What runs name the series that are there."""
        if self._is_merged:
            return {path_of(trial) for trial in self._parts()}
        return {f"{FOLDER}/{path.name}" for path in (self._report / FOLDER).rglob("*")}

    def faults(self) -> list[str]:
        """Return which files are not of the form of series, each with the reason.

        Such a file is not to be read.
        """
        paths = [self._report / FILE] if self._is_merged else (self._report / FOLDER).glob("*")
        found = [
            f"{path.relative_to(self._report)}: {why}"
            for path in sorted(paths)
            if (why := series_form.fault(path))
        ]
        if self._is_merged and not found and (why := self._disorder()):
            found.append(f"{FILE}: {why}")
        if self._is_merged and (self._report / FOLDER).exists():
            found.append(f"{FOLDER}: the series of a report are in files or in one file, not both")
        return found

    def read(self, run: Run) -> "pd.DataFrame | None":
        """Return the series of a run, as it was written; None if it has none or it is not there."""
        import pandas as pd

        if run.series is None or run.series not in self.names:
            return None
        if not self._is_merged:
            return pd.read_parquet(self._report / run.series)
        part = self._parts()[run.trial]
        empty = [name for name in part.column_names if part[name].null_count == len(part)]
        return part.drop_columns([_TRIAL, *empty]).to_pandas()

    @property
    def _is_merged(self) -> bool:
        return (self._report / FILE).exists()

    def _parts(self) -> "dict[int, pyarrow.Table]":
        """Return the rows of each trial, which are next to each other in the file."""
        from pyarrow import parquet

        if self._merged is None:
            whole = parquet.ParquetFile(self._report / FILE).read()
            trials = whole[_TRIAL].to_numpy()
            begins = [0, *((trials[1:] != trials[:-1]).nonzero()[0] + 1).tolist()]
            lengths = [b - a for a, b in zip(begins, [*begins[1:], len(whole)], strict=True)]
            self._merged = {
                int(trials[at]): whole.slice(at, n)
                for at, n in zip(begins, lengths, strict=True)
                if n
            }
        return self._merged

    def _disorder(self) -> str | None:
        """Return why it is not clear which trial each row is of, or None."""
        from pyarrow import parquet

        schema = parquet.read_schema(self._report / FILE)
        if schema.names.count(_TRIAL) != 1 or str(schema.field(_TRIAL).type) != "int64":
            return f"it has no column of numbers '{_TRIAL}'"
        trials = parquet.ParquetFile(self._report / FILE).read([_TRIAL])[_TRIAL]
        if trials.null_count:
            return "some of its rows are of no trial"
        numbers = trials.to_numpy()
        if (numbers[1:] < numbers[:-1]).any():
            return "its trials are not in their order"
        return None
