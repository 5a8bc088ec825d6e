"""The answer to a study's question: the first case whose verdicts are these, and its numbers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from innolab.analysis.outcomes import Outcome
from innolab.base import parsing
from innolab.base.errors import InputError
from innolab.record.text_types import PlainText

# A reader takes in no more than this at a glance.
_MOST_LINES = 5


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Case(_Part):
    """A sentence, and the outcomes of claims that it is true for.

    Attributes
    ----------
    when : by claim, its outcome or the outcomes that it may have; a case without is the last one,
        which says what is not known
    """

    says: PlainText
    when: dict[PlainText, Outcome | tuple[Outcome, ...]] = Field(default_factory=dict)

    def fits(self, outcomes: Mapping[str, str]) -> bool:
        """Return whether the claims of one server came out so.

        >>> Case(says="No", when={"A": "reproduced"}).fits({"A": "contradicted"})
        False
        """
        return all(
            outcomes.get(claim) in (wanted if isinstance(wanted, tuple) else (wanted,))
            for claim, wanted in self.when.items()
        )


class Line(_Part):
    """One number below the answer: a claim, and what a reader calls it."""

    claim: PlainText
    label: PlainText


class Answer(_Part):
    """How a study answers its question.

    Attributes
    ----------
    sentences : each the cases of one sentence, in the order in which they are tried
    lines : the claims that the answer rests on, in the order of their importance
    """

    sentences: list[list[Case]] = Field(default_factory=list)
    lines: list[Line] = Field(default_factory=list, max_length=_MOST_LINES)

    @model_validator(mode="after")
    def _always_says_something(self) -> "Answer":
        for cases in self.sentences:
            if not cases or any(not case.when for case in cases[:-1]) or cases[-1].when:
                raise ValueError("the last case of a sentence, and no other, has no 'when'")
        return self

    @property
    def claims(self) -> set[str]:
        """Return the ids of all claims that it names."""
        cases = [case for sentence in self.sentences for case in sentence]
        return {line.claim for line in self.lines}.union(*(case.when for case in cases))

    def said(self, verdicts: Iterable[Mapping[str, Any]]) -> list[dict[str, list[str]]]:
        """Return for each sentence what is said, and of which servers it is true.

        One text for all servers if they agree; otherwise a text for each group of them.

        Parameters
        ----------
        verdicts : entries of verdicts.json
        """
        by_server: dict[str, dict[str, str]] = {}
        for one in verdicts:
            by_server.setdefault(one["server"], {})[one["claim"]] = one["verdict"]
        return [_grouped(cases, by_server) for cases in self.sentences] if by_server else []


def _grouped(
    cases: Sequence[Case], by_server: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for server, outcomes in by_server.items():
        says = next(case.says for case in cases if case.fits(outcomes))
        groups.setdefault(says, []).append(server)
    return groups


def read(path: Path) -> Answer:
    """Return how a study answers its question; an empty answer if there is no file.

    Raises
    ------
    InputError
        If the file is malformed.
    """
    if not path.is_file():
        return Answer()
    try:
        text = parsing.read_text(path, parsing.MOST_YAML_BYTES)
        return Answer.model_validate(parsing.yaml_value(parsing.yaml_node(text)))
    except ValueError as error:
        raise InputError(f"{path} cannot be used: {parsing.reason(error)}") from None


def require_known(answer: Answer, claims: Sequence[str], path: Path) -> None:
    """Raise InputError if an answer names a claim that its study does not have."""
    if unknown := sorted(answer.claims - set(claims)):
        raise InputError(
            f"{path} names {unknown[0]}, which is no claim of the study; "
            f"its claims are: {', '.join(claims)}"
        )
