"""What a published table's columns are: what was varied, what was measured, in which units."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from innolab.base import parsing
from innolab.base.errors import InputError
from innolab.record.text_types import PlainText

Kind = Literal["rate", "time"]
Better = Literal["higher", "lower"]
Failed = Literal["refuse", "keep"]

# Among the notes: all columns that nothing else names.
ALL_OTHERS = "*"
# A unit in a heading: `tps (1/s)`, `p95 [ms]`.
_IN_HEADING = re.compile(r"(?P<name>.*?\S)\s*[\[(](?P<unit>[^\])]+)[\])]")
# Which way is better, with the marks around it: `(1/s, higher is better)`, `tps ↑`.
_MARKS = r"[\s,;:\-\u2013\u2014]*"
_BETTER_IN_HEADING = {
    "higher": r"\b(?:higher|more|bigger|larger|greater)\s*(?:is|are|=)?\s*better\b"
    r"|(?:높을|클|많을)수록\s*좋[음은다]*|[↑▲]",
    "lower": r"\b(?:lower|less|smaller|fewer|shorter)\s*(?:is|are|=)?\s*better\b"
    r"|(?:낮을|작을|적을|짧을)수록\s*좋[음은다]*|[↓▼]",
}
# How names end in this collection.
_BY_ENDING = {"_per_s": "1/s", "_per_min": "1/min", "_ms": "ms", "_us": "us", "_s": "s"}
_TIMES = (
    r"(?:us|usec|[µμ]s|ms|msec|s|secs?|seconds?|mins?|minutes?|h|hours?|(?:milli|micro|nano)seconds?"
    r"|(?:밀리|마이크로)?초|분|시간|毫?秒|ミリ秒)"
)
_PER_TIME = re.compile(
    rf"(?:.*(?:/|\bper\b|\ba\b))\s*{_TIMES}|(?:[초분]당|[毎每]秒).*"
    r"|tps|qps|rps|iops|ops|nopm|tpm|tpmc", re.IGNORECASE
)  # fmt: skip
_A_TIME = re.compile(r"ns|nsec|" + _TIMES, re.IGNORECASE)


def kind_of(unit: str) -> Kind | None:
    """Return whether a unit is of a rate or of a time, from which follows what is better.

    >>> kind_of("new orders/min"), kind_of("ms"), kind_of("GiB")
    ('rate', 'time', None)
    """
    if _PER_TIME.fullmatch(unit.strip()):
        return "rate"
    return "time" if _A_TIME.fullmatch(unit.strip()) else None


class Heading(NamedTuple):
    """What the heading of a column says: its name, its unit and which way is better, if any.

    A column that only says what is better was measured; its name is its unit then.
    """

    name: str
    unit: str | None = None
    better: Better | None = None


def heading(text: str) -> Heading:
    """Return what a heading says of its column.

    >>> heading("tps (1/s)")
    Heading(name='tps', unit='1/s', better=None)
    >>> heading("read_per_s").unit, heading("engine").unit
    ('1/s', None)
    >>> heading("Score (higher is better)")
    Heading(name='Score', unit='Score', better='higher')
    """
    name, better = _without_better(text.strip())
    if found := _IN_HEADING.fullmatch(name):
        return Heading(found["name"], found["unit"].strip(), better)
    unit = next((unit for end, unit in _BY_ENDING.items() if name.endswith(end)), None)
    return Heading(name, unit or (name if better else None), better)


def _without_better(text: str) -> tuple[str, Better | None]:
    for way in get_args(Better):
        for pattern in (rf"{_MARKS}[(\[]\s*(?:{_BETTER_IN_HEADING[way]})\s*[)\]]",
                        rf"{_MARKS}(?:{_BETTER_IN_HEADING[way]})"):  # fmt: skip
            rest = re.sub(pattern, "", text, count=1, flags=re.IGNORECASE)
            if rest != text and rest.strip():
                return rest.strip(), way
    return text, None


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnMetric(_Part):
    """A measured column.

    Attributes
    ----------
    unit : of its values
    better : which direction wins; a rate's and a time's need none
    """

    unit: PlainText = Field(min_length=1, max_length=60)
    better: Better | None = None

    @property
    def direction(self) -> Better | None:
        """Return which direction wins, None where nobody said."""
        by_kind: dict[Kind | None, Better | None] = {"rate": "higher", "time": "lower", None: None}
        return self.better or by_kind[kind_of(self.unit)]


class About(_Part):
    """A table's description. A file gives any of these; what it leaves out is taken from headings.

    Attributes
    ----------
    title : of the page
    source : who published it, where and when
    metrics : the measured columns with their units
    factors : the columns that were varied, each with its unit or nothing
    ranked : the factor whose levels are ranked, at equal levels of all others
    repeated_by : columns that tell replicates of one arm from each other
    notes : columns that are neither, such as the source of a row; `*` for all others
    output : the column that names a file beside the table, what sysbench or HammerDB printed
    seconds : the column of the moments within a run, in seconds, where a row is one of these: the
        rows of a run are then one, with the mean of each metric
    failed : whether a run that came to nothing (an output that is empty or without a result, a
        metric that is 0 or no number, such as N/A) is refused, or kept as failed and counted
    """

    title: PlainText | None = Field(default=None, max_length=200)
    source: PlainText | None = Field(default=None, max_length=1000)
    metrics: dict[PlainText, ColumnMetric] = Field(default_factory=dict)
    factors: dict[PlainText, PlainText | None] = Field(default_factory=dict)
    ranked: PlainText | None = None
    repeated_by: list[PlainText] = Field(default_factory=lambda: ["replicate", "run", "block"])
    notes: list[PlainText] = Field(default_factory=lambda: ["source", "note", "notes", "comment"])
    output: PlainText = "output"
    seconds: PlainText | None = None
    failed: Failed = "refuse"

    @field_validator("metrics", mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        """Let a metric be given by its unit alone."""
        if not isinstance(given, Mapping):
            return given
        return {k: {"unit": v} if isinstance(v, str) else v for k, v in given.items()}


def read(path: Path) -> About:
    """Return the description that a YAML file holds.

    Raises
    ------
    InputError
        Where it cannot be read, or names what a description does not have.
    """
    try:
        text = parsing.read_text(path, parsing.MOST_YAML_BYTES)
        body = parsing.yaml_value(parsing.yaml_node(text))
        if not isinstance(body, dict):
            raise ValueError("it holds no names with values")
        return About.model_validate(body)
    except ValueError as error:
        raise InputError(
            f"The description {path} cannot be used: {parsing.reason(error)}. It may have: "
            f"{', '.join(About.model_fields)}. Nothing was written."
        ) from None
