"""Write data/spreads.csv from the newest report of each study: `make spreads`."""

from typing import Any

from innolab import studies
from innolab.base import files
from innolab.report import folders, manifest
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
                name, wanted[-1].name, runs, study.kind.compared, study.kind.units,
                _machine(manifest.read(wanted[-1])["hosts"]),
            )  # fmt: skip
    return sorted(found, key=lambda row: (row.kind, row.study, row.metric))


def _machine(hosts: list[dict[str, Any]]) -> str:
    """Return the machines of a report, as people would describe them."""
    of = {
        f"{host['cpu']}, {host['cores']} processors, {host['memory_bytes'] / 2**30:.0f} GiB, "
        f"{'virtual' if host['virtual'] else 'dedicated'}"
        for host in hosts
    }
    return " and ".join(sorted(of))


if __name__ == "__main__":
    files.write(spreads.FILE, spreads.as_csv(rows()))
    print(spreads.FILE)
