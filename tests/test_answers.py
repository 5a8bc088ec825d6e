"""The answer to a study's question: cases, their sentences, and what a reader sees of them."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import ROOT, reference

from innolab import studies
from innolab.analysis.answers import Answer, Case, read, require_known
from innolab.base.errors import InputError
from innolab.report import answer
from innolab.studies.study import Study

NAMES = [name for name in studies.names() if studies.find(name).answer.sentences]
README = (ROOT / "README.md").read_text()
_OUTCOMES = ("reproduced", "contradicted", "inconclusive", "withheld", "not-run")


def _verdicts(study: Study, outcomes: dict[str, str], server: str = "a") -> list[dict[str, Any]]:
    """Return an entry for each claim, inconclusive if nothing else is named."""
    return [
        {"claim": claim.id, "server": server, "verdict": outcomes.get(claim.id, "inconclusive"),
         "estimate": 2.18, "low": 1.84, "high": 2.57, "published": 2.0}
        for claim in study.claims()
    ]  # fmt: skip


def _cases() -> Iterator[Any]:
    for name in NAMES:
        for number, cases in enumerate(studies.find(name).answer.sentences):
            for case in cases:
                yield pytest.param(name, number, case, id=f"{name}-{number}-{case.says[:40]}")


@pytest.mark.parametrize(("name", "number", "case"), list(_cases()))
def test_each_case_is_said_for_its_outcomes(name: str, number: int, case: Case) -> None:
    """A case that an earlier one hides would never be said."""
    study = studies.find(name)
    cases = study.answer.sentences[number]
    claims = sorted({claim for one in cases for claim in one.when})
    said = [
        next(one for one in cases if one.fits(dict(zip(claims, outcomes, strict=True))))
        for outcomes in itertools.product(_OUTCOMES, repeat=len(claims))
    ]
    assert case in said


def test_all_seven_studies_answer_their_question() -> None:
    assert len(NAMES) == 7


@pytest.mark.parametrize("name", NAMES)
def test_what_no_claim_decides_is_said_to_be_open(name: str) -> None:
    study = studies.find(name)
    said = answer.sentences(study, _verdicts(study, {}))
    assert any("not decided" in one or "not known" in one for one in said)
    assert not any(one.startswith(("Yes", "No:", "Buy")) for one in said)


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_report_answers(name: str) -> None:
    verdicts = json.loads((reference(name) / "verdicts.json").read_text())
    shown = answer.Answered(studies.find(name), verdicts)
    assert shown.sentences
    assert 1 <= shown._repr_html_().count("<tbody>") <= 5


def test_servers_that_differ_are_named() -> None:
    study = studies.find("more-memory")
    verdicts = _verdicts(study, {"A6-ro": "contradicted"}, "old")
    verdicts += _verdicts(study, {"A6-ro": "reproduced"}, "new")
    first, second, *_ = answer.sentences(study, verdicts)
    assert first.startswith("Buy flash")
    assert first.endswith("(old).")
    assert second.startswith("To read, buy memory")
    assert second.endswith("(new).")


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [
        (0.95, 1.06, "no measurable difference"),
        (0.1, 5.0, "not known"),
        (1.84, 2.57, "2.18x (1.84 to 2.57)"),
    ],
)
def test_a_number_says_what_it_can(low: float, high: float, says: str) -> None:
    study = studies.find("more-memory")
    verdicts = [{**one, "low": low, "high": high} for one in _verdicts(study, {})]
    assert says in repr(answer.Answered(study, verdicts))


@pytest.mark.parametrize(
    "body",
    ["sentences: [[]]", "sentences: [[{says: a, when: {A: reproduced}}]]",
     "sentences: [[{says: a}, {says: b}]]", "sentences: [[{says: a, when: {A: perhaps}}]]",
     "lines: 3", "- a"],
)  # fmt: skip
def test_a_malformed_answer_is_refused_with_its_file(tmp_path: Any, body: str) -> None:
    path = tmp_path / "answer.yml"
    path.write_text(body)
    with pytest.raises(InputError, match=r"answer\.yml"):
        read(path)


def test_an_answer_by_a_claim_that_is_not_there_is_refused(tmp_path: Any) -> None:
    named = Answer(sentences=[[Case(says="a", when={"B": "reproduced"}), Case(says="b")]])
    with pytest.raises(InputError, match="names B, which is no claim"):
        require_known(named, ["A"], tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_readme_says_what_the_newest_reference_answers(name: str) -> None:
    verdicts = json.loads((reference(name) / "verdicts.json").read_text())
    first, *_ = answer.sentences(studies.find(name), verdicts)
    [row] = [line for line in README.splitlines() if line.startswith(f"| `{name}` |")]
    assert row.endswith(f"| {first.removesuffix('.')} |")
