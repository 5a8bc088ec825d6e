"""Runs of our Ansible playbooks, and what they say."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from innolab.base import places
from innolab.base.errors import InnolabError

FOLDER = places.own("playbooks")


class PlaybookError(InnolabError):
    """A playbook failed; the message is that of the task that did."""


def play(name: str, wanted: Mapping[str, Any], *options: str | Path) -> list[dict[str, Any]]:
    """Run a playbook with extra variables and return the results of all its tasks, in order.

    Raises
    ------
    PlaybookError
        If a task fails or a host cannot be reached.
    """
    variables = ["--extra-vars", json.dumps(wanted)]
    return _results("ansible-playbook", str(FOLDER / name), *variables, *map(str, options))


def show(name: str, wanted: Mapping[str, Any]) -> None:
    """Run a playbook with extra variables for a person, who sees what it says.

    Raises
    ------
    PlaybookError
        If a task fails; Ansible has said why.
    """
    variables = ["--extra-vars", json.dumps(wanted)]
    words = _words("ansible-playbook", str(FOLDER / name), *variables)
    if subprocess.run(words, env=_environment(), cwd=FOLDER).returncode:
        raise PlaybookError(f"The playbook {name} failed; the lines above say where.")


def ask(inventory: Path, pattern: str, expression: str) -> list[Any]:
    """Return what an expression of an inventory's variables is for each host of a pattern.

    Raises
    ------
    PlaybookError
        If the inventory cannot be read, a variable is not there, or no host matches.
    """
    message = ["-m", "ansible.builtin.debug", "-a", f"msg={{{{ {expression} }}}}"]
    results = _results("ansible", pattern, "-i", str(inventory), *message)
    return [result.get("msg") for result in results]


def _words(program: str, *words: str) -> list[str]:
    """Return the command of an Ansible program that ends with us.

    It must not keep changing a host that nobody waits for.
    """
    ansible = str(Path(sys.executable).parent / program)
    return ["setpriv", "--pdeathsig", "KILL", ansible, *words]


def _environment() -> dict[str, str]:
    return {**os.environ, "ANSIBLE_CONFIG": str(FOLDER / "ansible.cfg")}


def _results(program: str, *words: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        _words(program, *words),
        env={
            **_environment(),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.json",
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        },
        capture_output=True,
        text=True,
        # A variable may hold any bytes.
        errors="replace",
        cwd=FOLDER,
    )
    results = _tasks(done.stdout)
    if done.returncode or not results:
        raise PlaybookError(_reason(results) or f"it said {_last(done) or 'nothing'}")
    return results


def _tasks(output: str) -> list[dict[str, Any]]:
    try:
        plays = json.loads(output[output.index("{") :])["plays"]
        hosts = [task["hosts"] for play in plays for task in play["tasks"]]
        return [dict(result) for named in hosts for result in named.values()]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _reason(results: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the message of the task that failed."""
    wrong = [r for r in results if r.get("failed") or r.get("unreachable")]
    return str(wrong[-1].get("msg")) if wrong else None


def _last(done: "subprocess.CompletedProcess[str]") -> str:
    return (done.stderr or done.stdout).strip()[-400:]
