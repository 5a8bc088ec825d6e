"""How to cite a report: BibTeX, CSL-JSON and a sentence, from CITATION.cff and the manifest."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from innolab.base import language
from innolab.report import project
from innolab.report.embedding import in_latex


@dataclass(frozen=True)
class Citation:
    """Where a figure comes from.

    Attributes
    ----------
    authors : each as CITATION.cff has it, with `name`, or `given-names` and `family-names`
    report : study and version, as innolab names it
    date : when the report was sealed
    innolab : the version that rendered it
    commit : that of innolab's files then, and whether they had other changes
    address : a DOI, and where the report is read, as far as CITATION.cff has a `url` of all reports
    """

    authors: tuple[Mapping[str, str], ...]
    title: str
    report: str
    date: datetime.date
    innolab: str
    commit: str | None
    address: Mapping[str, str]

    @property
    def key(self) -> str:
        """Return the name by which a text cites it."""
        return "innolab-" + self.report.replace("/", "-")

    @property
    def note(self) -> str:
        """Return which innolab made the report."""
        at = f", commit {self.commit}" if self.commit else ""
        return f"Rendered by innolab {self.innolab}{at}"

    def sentence(self) -> str:
        """Return who, when and what, as a list of references has it."""
        return _sentence(self.authors, self.title, self.report)

    def bibtex(self) -> str:
        """Return an entry for BibTeX and biblatex."""
        # Braces keep the capital letters of titles, and the names of groups in one piece.
        fields = {
            "author": "{" + " and ".join(_in_bibtex(one) for one in self.authors) + "}",
            "title": "{{" + in_latex(self.title) + "}}",
            "institution": "{innolab}",
            "type": "{Report}",
            "number": "{" + in_latex(self.report) + "}",
            "year": "{" + str(self.date.year) + "}",
            "month": self.date.strftime("%b").lower(),
            "note": "{" + in_latex(self.note) + "}",
            **{name: "{" + value + "}" for name, value in self.address.items()},
        }
        body = "".join(f"  {name} = {value},\n" for name, value in fields.items())
        return f"@techreport{{{self.key},\n{body}}}\n"

    def csl(self) -> list[dict[str, Any]]:
        """Return the entries of a CSL-JSON file: one."""
        names = {"doi": "DOI", "url": "URL"}
        entry = {
            "id": self.key,
            "type": "report",
            "title": self.title,
            "author": [_in_csl(one) for one in self.authors],
            "issued": {"date-parts": [[self.date.year, self.date.month, self.date.day]]},
            "number": self.report,
            "version": self.report.rpartition("/")[2],
            "publisher": "innolab",
            "note": self.note,
            **{names[name]: value for name, value in self.address.items()},
        }
        return [entry]


def sentence(title: str, report: str) -> str:
    """Return who, when and what, as far as it is known before a report is sealed."""
    return _sentence(project.entries()["authors"], title, report)


def _sentence(authors: Sequence[Mapping[str, str]], title: str, report: str) -> str:
    names = ", ".join(_plain(one) for one in authors)
    year = report.rpartition("/")[2][:4]
    return f"{names} ({year}). {title}. innolab report {report}."


def file_address(study: str, version: str, file: str) -> str:
    """Return the address of a report's file where CITATION.cff says at which `url` reports are.

    Else the address as seen from the report's folder.
    """
    url = project.entries().get("url")
    return f"{str(url).rstrip('/')}/{study}/{version}/{file}" if url else file


def credit(cited: str) -> str:
    """Return what stands below a figure that is published elsewhere."""
    licence = project.own().licence
    return language.text("Source: {source} Licence: {licence}.", source=cited, licence=licence)


def of_report(body: Mapping[str, Any], title: str) -> Citation:
    """Return the citation of a sealed report.

    Parameters
    ----------
    body : its manifest
    title : its study's
    """
    own = project.entries()
    by = body["rendered_by"]
    # Reports of innolab 0.1.0 do not say when they were sealed; a version begins with its day.
    day = (body.get("sealed_at") or body["version"])[:10]
    url = file_address(body["study"], body["version"], "") or own.get("repository-code")
    address = {"doi": own.get("doi"), "url": url}
    commit = f"{by['commit']}{' with changes' if by['dirty'] else ''}" if by["commit"] else None
    return Citation(
        tuple(own["authors"]),
        title,
        f"{body['study']}/{body['version']}",
        datetime.date.fromisoformat(day),
        by["version"],
        commit,
        {name: str(value) for name, value in address.items() if value},
    )


def _plain(author: Mapping[str, str]) -> str:
    return author.get("name") or f"{author['given-names']} {author['family-names']}"


def _in_bibtex(author: Mapping[str, str]) -> str:
    if name := author.get("name"):
        return "{" + in_latex(name) + "}"
    return in_latex(f"{author['family-names']}, {author['given-names']}")


def _in_csl(author: Mapping[str, str]) -> dict[str, str]:
    if name := author.get("name"):
        return {"literal": name}
    return {"family": author["family-names"], "given": author["given-names"]}
