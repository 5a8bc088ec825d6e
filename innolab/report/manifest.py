"""The manifest seals a report: what was asked, what it ran on, and the digest of every file."""

import hashlib
import json
from pathlib import Path
from typing import Any

from innolab import files
from innolab.errors import InnolabError
from innolab.itself import own_facts
from innolab.plans import Plan
from innolab.report import folders
from innolab.runs import Run

LOCK = Path(__file__).parents[2] / "requirements.lock"


def seal(
    folder: Path, runs: list[Run], time_s: dict[str, float], rendered_from: str | None = None
) -> Path:
    """Write the manifest, rename the unfinished folder to its version, and return it.

    `rendered_from` is the version whose runs were rendered anew, or None where they were measured.
    """
    version = folders.version_of(folder)
    body: dict[str, Any] = {
        "schema": 1,
        "version": version,
        **recorded(Plan.read(folder), runs),
        "rendered_by": own_facts(),
        "rendered_from": rendered_from,
        "lock_sha256": digest(LOCK),
        "time_s": time_s,
        "files": digests(folder),
    }
    body["seal"] = seal_of(body)
    files.write(folder / folders.MANIFEST_FILE, json.dumps(body, indent=1) + "\n")
    final = folder.with_name(version)
    if final.exists():
        raise InnolabError(f"{final} exists already, and reports are never overwritten.")
    folder.rename(final)
    return final


def recorded(plan: Plan, runs: list[Run]) -> dict[str, Any]:
    """Return the part of a manifest that follows from plan and runs."""
    return {
        "study": plan.study,
        "scale": plan.parameters["scale"],
        "parameters": plan.parameters,
        "spec_sha256": plan.spec_sha256,
        "builds": _builds(runs),
        "unavailable": plan.unavailable,
        "hosts": _distinct([run.conditions["host"] for run in runs]),
        "measured_by": _distinct([run.conditions["innolab"] for run in runs]),
        "runs": {
            "complete": sum(run.status == "complete" for run in runs),
            "failed": sum(run.status == "failed" for run in runs),
            "valid": sum(run.valid for run in runs),
        },
    }


def read(folder: Path) -> dict[str, Any]:
    """Return a report's manifest.

    Raises
    ------
    InnolabError
        Where it is damaged.
    """
    path = folder / folders.MANIFEST_FILE
    try:
        body = json.loads(path.read_text())
        if body["schema"] != 1 or not isinstance(body["files"], dict):
            raise ValueError("it is not of schema 1")
    except (ValueError, KeyError, TypeError) as error:
        raise InnolabError(
            f"{path} is damaged: {error}. Take the report from its source."
        ) from None
    return dict(body)


def seal_of(body: dict[str, Any]) -> str:
    """Return the digest of a manifest without its seal."""
    rest = {name: value for name, value in body.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of every file of a report but the manifest, by relative path."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    names = {str(p.relative_to(folder)): p for p in files}
    names.pop(folders.MANIFEST_FILE, None)
    return {name: digest(path) for name, path in names.items()}


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _builds(runs: list[Run]) -> dict[str, Any]:
    return {
        run.conditions["build"]["id"]: run.conditions["build"]
        for run in runs
        if "build" in run.conditions
    }


def _distinct(facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({json.dumps(f, sort_keys=True): f for f in facts}.values())
