"""Compute a report's derived parts again in a process of its own: `python -m` with a folder.

The parts are `page`, made in a folder that holds a copy of the records, and `metrics`, read where
they are. Prints faults and notes as JSON.
"""

import json
import sys
from pathlib import Path

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.report import render
from innolab.studies import rules
from innolab.verify import series_and_variables
from innolab.verify.series_and_variables import Followed


def _page(study: str, folder: Path) -> Followed:
    try:
        render.render(rules.with_papers(studies.find(study), folder), folder)
    except InnolabError as error:
        return Followed([str(error)], [])
    return Followed([], [])


def _main(part: str, study: str, folder: str) -> None:
    compute = {"page": _page, "metrics": series_and_variables.metrics}[part]
    print(json.dumps(compute(study, Path(folder))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
