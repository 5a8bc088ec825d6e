"""What was asked for, and who is informed of the progress."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic import ConfigDict, TypeAdapter

from innolab.base import files, parsing
from innolab.base.errors import InputError
from innolab.record.run import Factors, Level
from innolab.record.text_types import FolderName, Label, Name, PlainFacts, PlainText, Sha256, Text

PLAN_FILE = "plan.json"


class Progress(Protocol):
    """Who is informed of the progress."""

    def say(self, text: str) -> None:
        """Take a line about what is being done now."""

    def mark(self, text: str) -> None:
        """Take a line that a log should have too."""

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Take the count of recorded trials and the estimated seconds left."""


class Silent:
    """Progress that nobody reads."""

    def say(self, text: str) -> None:
        """Take a line."""

    mark = say

    def trials(self, done: int, total: int, left_s: float | None, text: str) -> None:
        """Take a count."""


class Blocks(NamedTuple):
    """How many blocks are measured: claims are judged after each from the `first` to the `last`.

    Between them, arms whose claims are all decided stop.
    """

    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """What was asked for, fixed before the first run: the content of plan.json.

    Attributes
    ----------
    study : the study's name
    spec_sha256 : the digest of all that decides what is measured
    parameters : all parameters, those left out included
    builds : the builds that run, in the order asked for
    unavailable, missing_devices : builds and devices that were asked for and do not run, and why
    blocks : after which blocks claims are judged; None in a plan of innolab 0.2 and older, which
        measured as many as its study's last
    twins : the arms that are measured twice in each block, by their levels
    lacking : by build, factor and level, why a build cannot have that level
    claims, arms : the claims that it is for and the arms that these need, by their levels; none
        where it is for a whole study
    wave : how many blocks several hosts measure at a time, each on one of them; None on one host,
        where one block follows the other
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    study: FolderName
    spec_sha256: Sha256
    parameters: PlainFacts
    builds: list[Name]
    unavailable: dict[Name, Text]
    missing_devices: dict[Name, Text] = field(default_factory=dict)
    blocks: Blocks | None = None
    twins: list[Factors] = field(default_factory=list)
    lacking: dict[Name, dict[Label, dict[Label, Text]]] = field(default_factory=dict)
    claims: list[PlainText] = field(default_factory=list)
    arms: list[Factors] = field(default_factory=list)
    wave: int | None = None

    def waves(self, blocks: int) -> Iterator[range]:
        """Yield the blocks that are measured at a time, up to a number of them.

        Arms stop between these alone: what runs next to a block cannot follow from its results.

        >>> plan = Plan("a", "0", {}, [], {}, blocks=Blocks(3, 8), wave=4)
        >>> list(plan.waves(8))
        [range(0, 3), range(3, 7), range(7, 8)]
        """
        at, size = 0, self.blocks.first if self.wave and self.blocks else 1
        while at < blocks:
            yield range(at, min(at + size, blocks))
            at, size = at + size, self.wave or 1

    def why_lacking(self, build: str, at: Mapping[str, Level]) -> str | None:
        """Return why a build cannot have some levels, or None where it can."""
        levels = self.lacking.get(build, {})
        reasons = (levels.get(name, {}).get(str(level)) for name, level in at.items())
        return next((reason for reason in reasons if reason), None)

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
            raise InputError(
                f"{folder} holds no {PLAN_FILE}, so it is no innolab report of a study."
            )
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

    def sha256(self, asking: Collection[str] = ()) -> str:
        """Return the digest of what is to be measured.

        Parameters
        ----------
        asking : the parameters that only ask of the results, and are no part
        """
        body = dict(self.__dict__)
        for name in ("lacking", "claims", "arms", "wave"):
            if not body[name]:
                del body[name]  # As plans had none, whose digests are registered.
        body["parameters"] = {n: v for n, v in self.parameters.items() if n not in asking}
        return files.digest_of(body)

    def write(self, folder: Path) -> None:
        """Write the plan into a report's folder."""
        body = {name: value for name, value in self.__dict__.items() if name != "wave" or value}
        files.write_json(folder / PLAN_FILE, body)


_Checked = TypeAdapter(Plan)
