"""One recorded run: what a line of runs.jsonl holds."""

import datetime
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from innolab.record.text_types import (
    Commit,
    Facts,
    FolderName,
    Label,
    Name,
    Release,
    Sha256,
    Text,
    Version,
)

SCHEMA = 2
# Measured by innolab 0.1.0 and 0.2.0; each study says how its runs of then read today.
OLDER_SCHEMA = 1
Result = Literal["ok", "warn", "invalid"]
Level = str | int | float | bool
Factors = dict[Label, Label | int | float | bool]
# Levels of within-factors and metrics, by name: one row of what a trial gave.
Observation = dict[Label, Label | int | float | bool]


def trial_key(block: int, factors: Mapping[str, Level], *, twin: bool = False) -> str:
    """Return the identity of a trial: its block, its levels in the order of their names, its twin.

    A twin is the second measurement of an arm in one block.
    """
    parts = [block, dict(sorted(factors.items())), *(["twin"] if twin else [])]
    return json.dumps(parts, separators=(",", ":"))


class CheckResult(BaseModel):
    """One validity test of a run.

    Attributes
    ----------
    check : its name
    result : an invalid run supports no verdict; a warning is shown
    says : what was found, as an English sentence
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: Label
    result: Result
    says: Text


class _Host(BaseModel):
    """What every run says of its host, besides much else."""

    cores: int = Field(ge=1)
    kernel: Release | None = None


class BuildFacts(BaseModel):
    """What every run that started a server says of its binaries."""

    model_config = ConfigDict(extra="forbid")

    id: Name
    version: Version
    origin: Text
    sha256: Sha256
    debug: bool


class Innolab(BaseModel):
    """Which innolab measured or rendered."""

    model_config = ConfigDict(extra="forbid")

    version: Version
    commit: Commit | None
    dirty: bool | None


class _Device(BaseModel):
    """What every run on a device says of it, besides much else."""

    name: Name


class _Conditions(BaseModel):
    """The conditions that every run has; each kind of trial records more.

    Attributes
    ----------
    host : the machine that the servers ran on: cores, memory, kernel, disk and more
    innolab : the version and commit that measured, and whether files differed from the commit
    time_s : where the trial's time went, by stage
    build : the server's binaries
    device : what held its data, by name, with its calibration
    member : the host of a fleet that measured it, by a digest; without one there was no fleet
    variables : the digest that names the effective server variables, a file in variables/
    """

    host: _Host
    innolab: Innolab
    time_s: dict[Label, Annotated[float, Field(ge=0)]]
    build: BuildFacts | None = None
    device: _Device | None = None
    member: Label | Literal[""] = ""
    # A digest, so that no name leads out of the report's folder.
    variables: str | None = Field(default=None, pattern="^[0-9a-f]{16}$")


class Run(BaseModel):
    """One recorded trial, failed ones included. A line of runs.jsonl.

    Attributes
    ----------
    schema_ : the version of this form
    study, scale, effort : what was measured, how large, and how long; older runs have no effort
    spec_sha256 : the digest of all that decides what is measured; runs that differ in it never mix
    trial : the place in the plan, from 0
    block : the pass over all arms that it belongs to, from 0
    factors : the levels of the arm
    twin : whether it is the second measurement of its arm in its block, a control
    observations : rows of levels of within-factors and metrics
    conditions : what was so besides the factors
    checks : the results of the study's checks
    series : the time series of the trial, a Parquet file
    status : whether the trial came to its end
    error : why it failed
    started_at, ended_at : when, with the time zone
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_: int
    study: FolderName
    spec_sha256: Sha256
    scale: Label
    # None where innolab 0.2 or older measured it, which had none.
    effort: Label | None = None
    trial: int = Field(ge=0)
    block: int = Field(ge=0)
    factors: Factors
    # The second measurement of its arm in its block: a control, of which no claim is.
    twin: bool = False
    observations: list[Observation]
    conditions: Facts
    checks: list[CheckResult]
    series: str | None = Field(pattern=r"^series/[0-9]{4,}\.parquet$")
    status: Literal["complete", "failed"]
    error: Text | None
    started_at: str
    ended_at: str

    @field_validator("factors")
    @classmethod
    def _of_a_server(cls, factors: Factors) -> Factors:
        if not isinstance(factors.get("server"), str):
            raise ValueError("its factors name no server")
        return factors

    @field_validator("conditions")
    @classmethod
    def _common_conditions(cls, conditions: dict[str, Any]) -> dict[str, Any]:
        _Conditions.model_validate(conditions)
        return conditions

    @field_validator("started_at", "ended_at")
    @classmethod
    def _moment(cls, text: str) -> str:
        if datetime.datetime.fromisoformat(text).tzinfo is None:
            raise ValueError(f"the time {text} names no time zone")
        return text

    @cached_property
    def key(self) -> str:
        """Return the identity of the trial that this run records."""
        return trial_key(self.block, self.factors, twin=self.twin)

    @cached_property
    def valid(self) -> bool:
        """Return whether the run may support a verdict."""
        return self.status == "complete" and all(c.result != "invalid" for c in self.checks)

    @property
    def member(self) -> str:
        """Return the host of a fleet that measured it, by a digest; empty where none was."""
        return str(self.conditions.get("member", ""))

    @property
    def is_older(self) -> bool:
        """Return whether innolab 0.1.0 measured it, which recorded less.

        It neither bound the lines of its log nor said which samples are of a window.
        """
        return self.conditions["innolab"].get("version") == "0.1.0"

    def body(self) -> dict[str, Any]:
        """Return the run as JSON has it."""
        body = self.model_dump()
        return {"schema": body.pop("schema_"), **body}

    @classmethod
    def from_body(cls, body: Any) -> "Run":
        """Return the run of a JSON body.

        Raises
        ------
        ValueError
            Where it is not of the schema.
        """
        if not isinstance(body, dict) or body.get("schema") != SCHEMA:
            raise ValueError(f"not a run of schema {SCHEMA}")
        rest = {name: value for name, value in body.items() if name != "schema"}
        return cls.model_validate({"schema_": SCHEMA, **rest})


def arm_text(run: Run) -> str:
    """Return the arm of a run as text, its server left out."""
    return ", ".join(str(level) for name, level in run.factors.items() if name != "server")
