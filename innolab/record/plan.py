"""What was asked for, and who is told how far it is."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import ConfigDict, TypeAdapter

from innolab.base import files, parsing
from innolab.base.errors import InputError
from innolab.record.study import Study, check_parameters, plan

PLAN_FILE = "plan.json"


class Progress(Protocol):
    """Who is told how far the work is."""

    def say(self, text: str) -> None:
        """Take a line about what is being done now."""

    def mark(self, text: str) -> None:
        """Take a line that a log should have too."""

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Take the count of recorded trials and the estimated seconds left."""


@dataclass(frozen=True)
class Plan:
    """What was asked for, fixed before the first run: the content of plan.json."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    study: str
    spec_sha256: str
    parameters: dict[str, Any]
    builds: list[str]
    unavailable: dict[str, str]
    missing_devices: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "Plan":
        """Return the plan of a report's folder.

        Raises
        ------
        InputError
            Where the folder holds none, or a damaged one.
        """
        path = folder / PLAN_FILE
        if not path.exists():
            raise InputError(f"{folder} holds no {PLAN_FILE}, so it is no innolab report.")
        try:
            found = _Checked.validate_python(parsing.json_file(path))
            if not isinstance(found.parameters.get("scale"), str):
                raise ValueError("its parameters name no scale")
            return found
        except ValueError as error:
            raise InputError(
                f"{path} is damaged ({parsing.reason(error)}). Move its folder away, or take it "
                "from its source."
            ) from None

    def asking(self, study: Study, given: Mapping[str, Any]) -> "Plan":
        """Return the plan of the same runs with other parameters for what is asked of them.

        Raises
        ------
        InputError
            Where a parameter would need other runs, or is wrong.
        """
        check_parameters(study, {**self.parameters, **given})
        known = self.parameters
        changed = {k: v for k, v in given.items() if k not in known or known[k] != v}
        if others := sorted(changed.keys() - study.question_parameters):
            may = ", ".join(sorted(study.question_parameters)) or "none"
            raise InputError(
                f"'{others[0]}' changes what is measured, and a report's runs are what they are. "
                f"Parameters that may be given anew: {may}. Nothing was written."
            )
        return replace(self, parameters={**self.parameters, **changed})

    def sha256(self, study: Study) -> str:
        """Return the digest of what is to be measured; what only asks of the results is no part."""
        body = dict(self.__dict__)
        body["parameters"] = {
            name: value
            for name, value in self.parameters.items()
            if name not in study.question_parameters
        }
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Write the plan into a report's folder."""
        files.write(folder / PLAN_FILE, json.dumps(self.__dict__, indent=1) + "\n")


_Checked = TypeAdapter(Plan)


def plan_keys(study: Study, chosen: Plan) -> list[str]:
    """Return the identities of all trials of a plan, in its order."""
    parameters = check_parameters(study, chosen.parameters)
    return [trial.key for trial in plan(study, parameters, chosen.builds)]
