"""A report as an RO-Crate: what each file is, and which action of which program made it.

It follows the profile Process Run Crate of the collection Workflow Run RO-Crate, so that tools of
this field read a report without knowing innolab. It says nothing that plan, runs and files do not.
"""

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from innolab.base import files, parsing
from innolab.record import runlog, series_store
from innolab.record.plan import PLAN_FILE, Plan
from innolab.record.run import Run
from innolab.report import folders, project, render
from innolab.report.project import Author
from innolab.studies import rules
from innolab.studies.study import Study

CRATE_FILE = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
# The specification's terms, and the one for digests that its collection adds.
_CONTEXT = [
    f"{_SPECIFICATION}/context",
    {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"},
]
_ACTION = "#measuring"
_MEDIA_TYPES = {
    ".bib": "application/x-bibtex",
    ".csv": "text/csv",
    ".html": "text/html",
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".yml": "application/yaml",
}
# The rest of a report came of these.
_INPUTS = (PLAN_FILE, rules.FILE, rules.CLAIMS_FILE, rules.PUBLISHED_FILE)
_DESCRIBED = {
    rules.FILE: "What the runs were judged by: settings, windows, bounds of checks",
    rules.CLAIMS_FILE: "The published claims, as predicates",
    rules.PUBLISHED_FILE: "The published figures",
    PLAN_FILE: "What was asked for, fixed before the first run",
    runlog.FILE: "Every run, failed ones included: a JSON document a line",
    render.NOTEBOOK_FILE: "The study's notebook, executed on these runs",
    render.PAGE_FILE: "The report as a page",
    render.VERDICTS_FILE: "Every claim's verdict on every server, with its interval",
    folders.MANIFEST_FILE: "The seal: what was asked, what it ran on, the digest of every file",
    "figures": "A figure: picture, plotted values or words",
    series_store.FILE: "What a server had done by each second of each trial",
    series_store.FOLDER: "What a server had done by each second of one trial",
    "variables": "The variables in force of one kind of server",
}
Entity = dict[str, Any]


def write(study: Study, folder: Path, runs: Sequence[Run], digests: Mapping[str, str]) -> None:
    """Write the crate's metadata into a report's folder, in the place of an older one.

    Parameters
    ----------
    digests : the SHA-256 of each file of the report by relative path; the crate's own is no part
    """
    sizes = {
        name: (digest, (folder / name).stat().st_size)
        for name, digest in digests.items()
        if name != CRATE_FILE
    }
    body = {"@context": _CONTEXT, "@graph": _graph(study, folder, runs, sizes)}
    files.write_json(folder / CRATE_FILE, body, is_ascii=False)


def differences(report: Path, made: Path, digests: Mapping[str, str]) -> list[str]:
    """Return how a report's crate is not the one that was made again, or not of its files.

    What was made again may have pictures of other bytes, so digests are compared with the report's
    own files; all else has to be equal.

    Parameters
    ----------
    digests : the SHA-256 of each file of the report by relative path
    """
    try:
        kept, wanted = (parsing.json_file(folder / CRATE_FILE) for folder in (report, made))
        found = [
            f"{name!r} is described with another digest or size than it has"
            for name, facts in _facts(kept).items()
            if facts != (digests.get(name), _size(report / name))
        ]
        if _without_facts(kept) != _without_facts(wanted):
            found.append("it does not follow from plan, runs and files of the report")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        found = [f"it is damaged ({type(error).__name__})"]
    return [f"{CRATE_FILE}: {fault}" for fault in found]


def _graph(
    study: Study, folder: Path, runs: Sequence[Run], sizes: Mapping[str, tuple[str, int]]
) -> list[Entity]:
    plan = Plan.read(folder)
    about = project.own()
    parts = {name: _file(name, *facts) for name, facts in sizes.items()}
    seal = _file(folders.MANIFEST_FILE)
    programs = _programs(runs)
    inputs = [_notebook(study), *_builds(runs), *_parameters(plan)]
    authors = [_author(author) for author in about.authors]
    groups = [author for author in authors if author["@type"] == "Organization"]
    licence = _licence(about.licence)
    action = _action(study, runs, programs, authors)
    action["object"] = _ids([*(parts[name] for name in _INPUTS if name in parts), *inputs])
    action["result"] = _ids([part for name, part in parts.items() if name not in _INPUTS])
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{study.title} (report {folders.version_of(folder)})",
        "description": study.question,
        "identifier": f"{study.name}/{folders.version_of(folder)}",
        "version": folders.version_of(folder),
        "datePublished": action["endTime"][:10],
        "keywords": list(about.keywords),
        "conformsTo": {"@id": PROFILE},
        "license": _ids([licence]),
        "author": _ids(authors),
        **({"publisher": _ids(groups[:1])} if groups else {}),
        "mentions": {"@id": _ACTION},
        "hasPart": _ids([*parts.values(), seal]),
    }
    profile = {
        "@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"
    }  # fmt: skip
    described = [_descriptor(), root, profile, licence, *authors]
    return [*described, action, *programs, *inputs, *parts.values(), seal]


def _descriptor() -> Entity:
    return {
        "@id": CRATE_FILE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _SPECIFICATION},
        "about": {"@id": "./"},
    }


def _action(
    study: Study, runs: Sequence[Run], programs: Sequence[Entity], authors: Sequence[Entity]
) -> Entity:
    moments = datetime.datetime.fromisoformat
    return {
        "@id": _ACTION,
        "@type": "CreateAction",
        "name": f"Measuring {study.name}",
        "description": (
            f"{len(runs)} trials on real servers, and the study's notebook executed on them. "
            f"{folders.MANIFEST_FILE} says which innolab executed it."
        ),
        "startTime": min((run.started_at for run in runs), key=moments),
        "endTime": max((run.ended_at for run in runs), key=moments),
        "actionStatus": "http://schema.org/CompletedActionStatus",
        "instrument": _ids(programs),
        "agent": _ids(authors),
    }


def _file(name: str, digest: str | None = None, size: int | None = None) -> Entity:
    entity = {
        "@id": quote(name),
        "@type": "File",
        "name": name,
        "encodingFormat": _MEDIA_TYPES.get(Path(name).suffix, "application/octet-stream"),
    }
    if says := _DESCRIBED.get(name) or _DESCRIBED.get(name.partition("/")[0]):
        entity["description"] = says
    if digest is not None:
        entity |= {"contentSize": str(size), "sha256": digest}
    return entity


def _programs(runs: Sequence[Run]) -> list[Entity]:
    """Return each innolab that measured, in the order of the runs."""
    found = {json.dumps(run.conditions["innolab"]): run.conditions["innolab"] for run in runs}
    return [
        {
            "@id": f"#innolab-{number}",
            "@type": "SoftwareApplication",
            "name": "innolab",
            "softwareVersion": own["version"],
            "identifier": f"git commit {own.get('commit') or 'unknown'}",
            "description": (
                "With changes that no commit holds" if own.get("dirty") else "As its commit has it"
            ),
        }
        for number, own in enumerate(found.values(), 1)
    ]


def _builds(runs: Sequence[Run]) -> list[Entity]:
    """Return each server or tool that was measured with, by the digest of its binary."""
    found = {run.conditions["build"]["id"]: run.conditions["build"] for run in runs
             if "build" in run.conditions}  # fmt: skip
    return [
        {
            "@id": f"#build-{quote(name, safe='')}",
            "@type": ["SoftwareApplication", "CreativeWork"],
            "name": name,
            "softwareVersion": build["version"],
            "description": build["origin"],
            "sha256": build["sha256"],
        }
        for name, build in found.items()
    ]


def _notebook(study: Study) -> Entity:
    """Return the notebook's source as it was when the report was made."""
    path = study.papers.notebook
    return {
        "@id": "#notebook",
        "@type": "CreativeWork",
        "name": path.name,
        "description": "The notebook's source, with no outputs",
        "encodingFormat": _MEDIA_TYPES[path.suffix],
        "sha256": files.digest(path),
    }


def _parameters(plan: Plan) -> list[Entity]:
    return [
        {
            "@id": f"#parameter-{name}",
            "@type": "PropertyValue",
            "name": name,
            "value": value if isinstance(value, str) else json.dumps(value),
        }
        for name, value in plan.parameters.items()
    ]


def _author(author: Author) -> Entity:
    local = f"#{quote(author.name.replace(' ', '-'), safe='')}"
    entity = {
        "@id": author.orcid or local,
        "@type": "Person" if author.is_person else "Organization",
        "name": author.name,
    }
    return {**entity, "affiliation": author.affiliation} if author.affiliation else entity


def _licence(spdx: str) -> Entity:
    return {
        "@id": f"https://spdx.org/licenses/{spdx}",
        "@type": "CreativeWork",
        "name": spdx,
        "description": f"The licence that SPDX calls {spdx}; its text is in LICENSE of innolab",
    }


def _ids(entities: Sequence[Entity]) -> Entity | list[Entity]:
    """Return references to entities; one alone is no list."""
    found = [{"@id": entity["@id"]} for entity in entities]
    return found[0] if len(found) == 1 else found


def _facts(body: Any) -> dict[str, tuple[str, int]]:
    """Return digest and size of each file that a crate describes with them."""
    return {
        entity["name"]: (entity["sha256"], int(entity["contentSize"]))
        for entity in body["@graph"]
        if entity["@type"] == "File" and "sha256" in entity
    }


def _without_facts(body: Any) -> Any:
    """Return a crate without digests and sizes of files, which are compared by themselves."""
    graph = [
        {
            name: value
            for name, value in entity.items()
            if entity["@type"] != "File" or name not in ("sha256", "contentSize")
        }
        for entity in body["@graph"]
    ]
    return {**body, "@graph": graph}


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.is_file() else None
