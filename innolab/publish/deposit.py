"""A report as a folder to deposit in an archive such as Zenodo; nothing is sent anywhere.

It holds the whole report as one archive, what it was judged by, the licence, the citation, and the
metadata that the archive asks for.
"""

import shutil
import tempfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

from markupsafe import Markup

from innolab import studies
from innolab.base import files
from innolab.base.errors import InputError
from innolab.report import crate, manifest, project, render
from innolab.report.sealing import Proof
from innolab.studies.rules import CLAIMS_FILE, PUBLISHED_FILE
from innolab.studies.study import Study

# Zenodo's name for metadata in a repository, and what its deposition API takes as a request's body.
ZENODO_FILE, REQUEST_FILE = ".zenodo.json", "metadata.json"
# The first moment that a ZIP file can say: no file of an archive tells when it was packed.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16


def write(report: Path, to: Path, *, prove: Proof) -> Path:
    """Write a report's deposit into a new folder and return it.

    The same report gives the same bytes.

    Parameters
    ----------
    prove : takes the report, and raises if it does not hold

    Raises
    ------
    InputError
        If the folder exists or cannot be made, or the report does not verify.
    """
    if to.exists():
        raise InputError(f"{to} exists already. Name a folder that does not, with --to.")
    prove(report)
    body = manifest.read(report)
    study = studies.find(body["study"])
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=to.parent, prefix=f"{to.name}.") as place:
            half = Path(place) / "deposit"
            half.mkdir()
            _fill(half, report, body, study)
            half.rename(to)
    except OSError as error:
        raise InputError(
            f"{to} cannot be written ({error.strerror}). Name another folder with --to."
        ) from None
    return to


def metadata(report: Path, body: dict[str, Any], study: Study) -> dict[str, Any]:
    """Return what Zenodo asks to know of a report.

    Parameters
    ----------
    body : the report's manifest
    """
    about = project.own()
    sources = project.sources(study.name)
    sealed_at = body.get("sealed_at") or body["version"]  # A version begins with its day.
    return {
        "title": f"{study.title} (innolab report {study.name}/{body['version']})",
        "upload_type": "dataset",
        "publication_date": sealed_at[:10],
        "description": _description(report, body, study),
        "creators": [_creator(author) for author in about.authors],
        "access_right": "open",
        "license": about.licence,
        "version": body["version"],
        "language": "eng",
        "keywords": [*about.keywords, study.name],
        "references": [
            source.title + (f" {source.address}" if source.address else "") for source in sources
        ],
        "related_identifiers": [
            {"identifier": source.address, "relation": "references"}
            for source in sources
            if source.address
        ],
        "notes": _notes(body),
    }


def _fill(folder: Path, report: Path, body: dict[str, Any], study: Study) -> None:
    pack(report, folder / f"{study.name}-{body['version']}.zip")
    judged_by = (report / CLAIMS_FILE, report / PUBLISHED_FILE)
    for path in [*judged_by, project.LICENCE_FILE, project.CITATION_FILE]:
        shutil.copyfile(path, folder / path.name)
    of_zenodo = metadata(report, body, study)
    for name, content in ((ZENODO_FILE, of_zenodo), (REQUEST_FILE, {"metadata": of_zenodo})):
        files.write_json(folder / name, content, is_ascii=False)


def pack(report: Path, archive: Path) -> None:
    """Write a report, its signatures included, as a ZIP file that is the same everywhere.

    Nothing is compressed: another release of zlib would give other bytes, and pictures and series
    are compressed already.
    """
    root = f"{archive.stem}/"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for path in sorted(path for path in report.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(root + path.relative_to(report).as_posix(), _NO_TIME)
            entry.external_attr = _PLAIN_FILE
            packed.writestr(entry, path.read_bytes())


def _creator(author: project.Author) -> dict[str, str]:
    known = {
        "name": author.name,
        "affiliation": author.affiliation,
        "orcid": author.orcid and author.orcid.rpartition("/")[2],
    }
    return {name: value for name, value in known.items() if value}


def _description(report: Path, body: dict[str, Any], study: Study) -> str:
    """Return the abstract, in the few tags of HTML that Zenodo shows."""
    verdicts = Counter(v["verdict"] for v in render.read_verdicts(report))
    counted = ", ".join(f"{number} {verdict}" for verdict, number in sorted(verdicts.items()))
    runs = body["runs"]
    said = [
        study.question,
        f"Measured on {', '.join(body['builds']) or 'devices alone'} at scale {body['scale']}: "
        f"{runs['valid']} valid of {runs['complete'] + runs['failed']} runs. "
        f"Verdicts on published claims: {counted}.",
        f"The archive holds the report{_as_crate(report)}; index.html is its page. innolab verify, "
        f"on the unpacked folder, computes it again from its runs. Its seal is {body['seal']}.",
    ]
    return "".join(Markup("<p>{}</p>").format(text) for text in said)


def _as_crate(report: Path) -> str:
    return ", an RO-Crate" if (report / crate.CRATE_FILE).exists() else ""


def _notes(body: dict[str, Any]) -> str:
    by = [f"{one['version']} ({one['commit'] or 'no commit'})" for one in body["measured_by"]]
    rendered = body["rendered_by"]
    return (
        f"Measured by innolab {', '.join(by)}; rendered by innolab {rendered['version']} "
        f"({rendered['commit'] or 'no commit'})."
    )
