"""Who made this project, under which licence, and what its studies take their claims from."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import yaml

from innolab.base import parsing, places

CITATION_FILE, LICENCE_FILE = places.own("CITATION.cff"), places.own("LICENSE")
_DATA_PACKAGE = places.own("data", "datapackage.json")


class Author(NamedTuple):
    """A person or a group, as CITATION.cff names it; `name` is "Family, Given" of a person."""

    name: str
    is_person: bool
    orcid: str | None = None
    affiliation: str | None = None


class ProjectFacts(NamedTuple):
    """What CITATION.cff says of the project; the licence is an SPDX identifier."""

    authors: tuple[Author, ...]
    licence: str
    keywords: tuple[str, ...]


class Source(NamedTuple):
    """A published text that a study judges; no address where none is known."""

    title: str
    address: str | None


@cache
def entries() -> Mapping[str, Any]:
    """Return all entries of CITATION.cff by name."""
    return dict(yaml.safe_load(CITATION_FILE.read_text()))


@cache
def own() -> ProjectFacts:
    """Return what CITATION.cff says of who made the project."""
    body = entries()
    return ProjectFacts(
        authors=tuple(_author(entry) for entry in body["authors"]),
        licence=body["license"],
        keywords=tuple(body.get("keywords", ())),
    )


def _author(entry: dict[str, str]) -> Author:
    family = " ".join(
        part for part in (entry.get("name-particle"), entry.get("family-names")) if part
    )
    of_person = ", ".join(part for part in (family, entry.get("given-names")) if part)
    name = entry.get("name") or of_person
    return Author(name, bool(of_person), entry.get("orcid"), entry.get("affiliation"))


def sources(study: str) -> list[Source]:
    """Return what a study's claims are taken from, as data/datapackage.json says.

    Empty for a study of another package, whose figures no data package describes.
    """
    resources = parsing.json_file(_DATA_PACKAGE)["resources"]
    found = [source for one in resources if one["name"] == study for source in one["sources"]]
    return [Source(source["title"], source.get("path")) for source in found]
