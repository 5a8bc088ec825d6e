"""Write data/spreads.csv from the newest report of each study: `make spreads`."""

from innolab import studies
from innolab.base import files
from innolab.report import folders
from innolab.tables import spreads


def rows(only: dict[str, str] | None = None) -> list[spreads.KnownSpread]:
    """Return the spreads of the newest report of each study.

    Parameters
    ----------
    only : the reports to read instead, by study
    """
    found = []
    for name in only or studies.names():
        reports = folders.finished(name)
        wanted = [one for one in reports if only is None or one.name == only[name]]
        if wanted:
            study = studies.find(name)
            runs = study.read(wanted[-1])
            found += spreads.of_report(
                name, wanted[-1].name, runs, study.kind.compared, study.kind.units
            )
    return sorted(found, key=lambda row: (row.kind, row.study, row.metric))


if __name__ == "__main__":
    files.write(spreads.FILE, spreads.as_csv(rows()))
    print(spreads.FILE)
