"""The parameters that every study takes, and the types of which a study makes its own."""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from innolab.base import language as languages
from innolab.base.errors import InputError
from innolab.base.quoting import MOST_SHOWN, cut, shown
from innolab.storage.profiles import HOST, profiles

Scale = Literal["smoke", "quick", "paper"]
EffortName = Literal["smoke", "quick", "reference"]
Value = TypeVar("Value")

# What is taken where only a scale is named.
_EFFORT_OF: dict[Scale, EffortName] = {"smoke": "smoke", "quick": "quick", "paper": "reference"}
_BUDGET = re.compile(r"([1-9][0-9]{0,4})min")
_MOST_FAULTS, _MOST_SAID = 8, 1500
_ROLE = "role"


class ByScale(NamedTuple, Generic[Value]):
    """A value for each scale."""

    smoke: Value
    quick: Value
    paper: Value

    def of(self, parameters: "Parameters") -> Value:
        """Return the value at the scale of some parameters.

        >>> ByScale(1, 2, 60).of(Parameters(scale="paper"))
        60
        """
        value: Value = getattr(self, parameters.scale)
        return value


class ByEffort(NamedTuple, Generic[Value]):
    """A value for each effort."""

    smoke: Value
    quick: Value
    reference: Value

    def of(self, parameters: "Parameters") -> Value:
        """Return the value at the effort of some parameters.

        >>> ByEffort(1, 10, 30).of(Parameters(effort="90min"))
        30
        """
        value: Value = getattr(self, parameters.effort_name)
        return value


def asks(default: Any, **limits: Any) -> Any:
    """Return the field of a parameter that only asks of the results, and may change afterwards."""
    return Field(default, json_schema_extra={_ROLE: "asks"}, **limits)


def repeats(default: Any, **limits: Any) -> Any:
    """Return the field of a parameter that says where or how often, not what, is measured."""
    return Field(default, json_schema_extra={_ROLE: "repeats"}, **limits)


def _each_once(names: list[str]) -> list[str]:
    if len(set(names)) != len(names) or not all(names):
        raise ValueError("has to name each one once, and none with an empty name")
    return names


def one_of(known: Mapping[str, Any], what: str) -> AfterValidator:
    """Return a validator of a name or of a list of names, each once, among those that are known."""

    def check(value: str | list[str]) -> str | list[str]:
        names = _each_once(value) if isinstance(value, list) else [value]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"names '{unknown[0]}'; the {what} are {', '.join(known)}")
        return value

    return AfterValidator(check)


def _effort(text: str | None) -> str | None:
    known = EffortName.__args__  # type: ignore[attr-defined]
    if text is not None and text not in known and not _BUDGET.fullmatch(text):
        raise ValueError(
            f"should be {', '.join(known)}, or a time such as 90min, which reference is cut to"
        )
    return text


Effort = Annotated[str | None, AfterValidator(_effort)]
Profile = Annotated[str, one_of(profiles(), "devices")]
Devices = Annotated[list[str], Field(min_length=1), one_of({**profiles(), HOST: None}, "devices")]
Builds = Annotated[list[str], Field(min_length=1), AfterValidator(_each_once)]
Rows = Annotated[int | None, Field(ge=100_000, le=2_000_000_000)]
Threads = Annotated[int, Field(ge=1, le=1000)]
Language = Annotated[str, one_of(languages.FONTS, "languages")]
FlushLog = Annotated[int, Field(ge=0, le=2)]


class Parameters(BaseModel):
    """The parameters that every study takes. A study adds its own in a subclass.

    `ROWS` has the number of rows at each scale, with which all sizes shrink in proportion.

    Attributes
    ----------
    scale : the sizes; never ratios, such as that of the buffer pool to the data
    effort : how long and how often is measured: smoke, quick, reference, or a time such as 90min,
        at which reference is cut; left out, it is that of the scale
    seed : what every random choice follows from, such as the order of the arms in a block
    replicates : the number of blocks, judged once after the last; left out, the effort says it
    builds : ids of installed builds, or paths of a mysqld
    rows : the rows of the table, instead of those of the scale; all else keeps its ratio to them
    language : the language of captions, axes and page texts: en or ko
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    ROWS: ClassVar[ByScale[int]] = ByScale(100_000, 100_000, 100_000)

    scale: Scale = "quick"
    effort: Effort = repeats(None)
    seed: int = repeats(2017, ge=0, le=2**32 - 1)
    replicates: int | None = repeats(None, ge=1, le=1000)
    builds: Builds = repeats(["mysql-5.6.24", "mysql-9.7"])
    rows: Rows = None
    language: Language = asks(languages.ENGLISH)

    @cached_property
    def table_rows(self) -> int:
        """Return the rows of the table: as asked, else as the scale has it."""
        return self.rows or self.ROWS.of(self)

    @property
    def effort_name(self) -> EffortName:
        """Return the effort by name: as asked, else that of the scale; a time cuts `reference`."""
        if self.effort is None:
            return _EFFORT_OF[self.scale]
        return "reference" if self.budget_s else self.effort  # type: ignore[return-value]

    @property
    def budget_s(self) -> float | None:
        """Return the time that measuring may take, where one was given."""
        found = _BUDGET.fullmatch(self.effort or "")
        return 60.0 * int(found[1]) if found else None

    def measured_of(self, devices: list[str]) -> list[str]:
        """Return the devices that are measured: at smoke the first and the last of them.

        >>> Parameters(effort="smoke").measured_of(["15k", "vertex", "host"])
        ['15k', 'host']
        """
        first, *others = devices
        return [first, *others[-1:]] if self.effort_name == "smoke" else devices

    @classmethod
    def with_role(cls, role: Literal["asks", "repeats"]) -> frozenset[str]:
        """Return the names of the parameters that were declared by `asks` or by `repeats`."""
        return frozenset(
            name
            for name, field in cls.model_fields.items()
            if isinstance(extra := field.json_schema_extra, dict) and extra.get(_ROLE) == role
        )

    def measured(self) -> dict[str, Any]:
        """Return what decides what is measured, JSON: parameters without a role, and the effort.

        Efforts differ in their windows, so that runs of two must not mix.
        """
        without = self.with_role("asks") | self.with_role("repeats")
        given = self.model_dump(exclude=set(without))
        return {**given, "rows": self.table_rows, "effort": self.effort_name}


def check(model: type[Parameters], study: str, given: Mapping[str, Any]) -> Parameters:
    """Return a study's typed parameters.

    Raises
    ------
    InputError
        Names every unknown, mistyped or out-of-range parameter and what is allowed, as far as one
        paragraph can.
    """
    try:
        found = model.model_validate(dict(given))
        faults = [
            f"'{name}' is {shown(value)} but should be printable text"
            for name, value in found
            if not _is_printable(value)
        ]
    except ValidationError as error:
        faults = [_fault(model, item) for item in error.errors()[:_MOST_FAULTS]]
    except UnicodeError:
        faults = ["a name among them is no valid text"]
    if faults:
        said = cut("; ".join(faults), _MOST_SAID)
        raise InputError(f"{study} cannot run with these parameters: {said}. Nothing was written.")
    return found


def _fault(model: type[Parameters], item: Any) -> str:
    says = cut(item["msg"].removeprefix("Value error, ").removeprefix("Input "), MOST_SHOWN)
    if not item["loc"]:  # Of two parameters that do not go together.
        return says
    name = shown(str(item["loc"][0]))
    if item["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return f"{name} is unknown (the study takes: {known})"
    return f"{name} is {shown(item['input'])} but {says[0].lower()}{says[1:]}"


def _is_printable(value: Any) -> bool:
    """Return whether all text of a parameter can be a name, a path or a word of a command."""
    if isinstance(value, str):
        return value.isprintable()
    return not isinstance(value, list | dict) or all(map(_is_printable, value))
