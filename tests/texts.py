"""Every text of the project that a catalogue translates, found where it is written.

`python tests/texts.py` (`make texts`) brings the catalogues up to them: texts that are new stand
there with an empty translation, those that nothing says any more are dropped. Words of tables and
figures, and sentences that checks record, are kept by hand under "words" and "composed";
tests render reports to find those that lack.
"""

import ast
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import nbformat
import yaml
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import write_po

from innolab import __version__, studies
from innolab.analysis.likelihood import Leaning
from innolab.analysis.outcomes import Outcome
from innolab.base import language

ROOT = Path(__file__).parent.parent
# What takes an English text first.
_CALLS = {"text": None, "message": None, "prose": None, "_": None}
# Arguments of seaborn and of `publish` that readers see.
_SHOWN = {"caption", "alt", "xlabel", "ylabel"}
# Of this many words on, a literal of a notebook is prose, unless it asks for rows.
_PROSE_WORDS = 5
# The comments under which messages are kept though nothing here finds them.
BY_HAND = {"words", "composed"}
_HEADER = "# The texts of innolab in another language: docs/decisions/0024-languages.md says how."


class Text(NamedTuple):
    """An English text, where it stands, and the context of its translation."""

    english: str
    where: str
    context: str | None = None


def wanted() -> list[Text]:
    """Return every text that a catalogue has to translate, each once."""
    found: dict[str, Text] = {}
    for text in [
        *_notebooks(),
        *_modules(),
        *_templates(),
        *_claims(),
        *_answers(),
        *_published(),
        *_names(),
    ]:
        if re.search("[a-z]", re.sub(r"\{[^}]*\}|\*", "", text.english)):
            found.setdefault(text.english, text)
    return list(found.values())


def _notebooks() -> Iterator[Text]:
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "markdown":
                for paragraph in cell.source.split("\n\n"):
                    yield Text(language.parts(paragraph)[1], path.name)
            else:
                for english in dict.fromkeys([*_said(cell.source), *_literals(cell.source)]):
                    yield Text(english, path.name)


def _modules() -> Iterator[Text]:
    for path in sorted((ROOT / "innolab").rglob("*.py")):
        for english in _said(path.read_text()):
            yield Text(english, str(path.relative_to(ROOT)))


def _templates() -> Iterator[Text]:
    for path in sorted((ROOT / "innolab").rglob("*.html.j2")):
        source = io.BytesIO(path.read_bytes())
        for _, english, _, _ in extract("jinja2.ext:babel_extract", source, _CALLS):
            yield Text(str(english), str(path.relative_to(ROOT)))


def _said(source: str) -> Iterator[str]:
    """Yield the texts that code gives to be translated."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            yield from _constant(node.args[0]) if name in _CALLS else []


def _literals(source: str) -> Iterator[str]:
    """Yield the literals of a notebook's cell that readers see though no call marks them."""
    tree = ast.parse(source)
    quiet = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) or _is_query(node)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in _SHOWN:
            yield from _constant(node.value)
        elif id(node) not in quiet:
            yield from (one for one in _constant(node) if len(one.split()) >= _PROSE_WORDS)


def _is_query(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "query"
    )


def _constant(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if node.value.strip() else []
    return []


def _claims() -> Iterator[Text]:
    for path in sorted((ROOT / "data" / "claims").glob("*.yml")):
        for claim in yaml.safe_load(path.read_text()):
            for name in ("says", "source", "not_measured", "care", "absent"):
                if english := claim.get(name):
                    context = language.COMPOSED if "{" in english else None
                    yield Text(str(english), path.name, context)


def _answers() -> Iterator[Text]:
    for name in studies.names():
        answer = studies.find(name).answer
        for says in [case.says for cases in answer.sentences for case in cases]:
            yield Text(says, f"{name}: answer")
        for line in answer.lines:
            yield Text(line.label, f"{name}: answer")


def _published() -> Iterator[Text]:
    """Yield what the tables of published figures say in words; an abbreviated unit is no word."""
    for path in sorted((ROOT / "data" / "published").glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                for name in ("quantity", "where", "note", "unit"):
                    if re.search("[a-z]{4}", english := row.get(name) or ""):
                        yield Text(english, path.name)


def _names() -> Iterator[Text]:
    for outcome in (*get_args(Outcome), *get_args(Leaning)):
        yield Text(outcome, "verdicts")
    for name in studies.names():
        study = studies.find(name)
        yield Text(study.title, name)
        yield Text(study.question, name)
        for check in study.kind.checks:
            yield Text(check, "checks")


def prose_in_f_strings() -> Iterator[str]:
    """Yield the f-strings of notebooks whose words no catalogue could name."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code":
                for node in ast.walk(ast.parse(cell.source)):
                    if isinstance(node, ast.JoinedStr):
                        words = " ".join(one for part in node.values for one in _constant(part))
                        if len(re.findall(r"[a-z]{2,}", words)) > 2:
                            yield f"{path.name}: {words}"


def updated(old: Catalog) -> Catalog:
    """Return a catalogue with all texts wanted, and the translations that it had."""
    new = Catalog(old.locale, old.domain, _HEADER, "innolab", __version__, fuzzy=False)
    new.last_translator, new.language_team = "the authors of innolab", "the authors of innolab"
    new.msgid_bugs_address = "the issues of the project"
    new.creation_date = new.revision_date = old.creation_date
    texts = wanted()
    known = {(text.english, text.context) for text in texts}
    for message in old:
        is_known = (message.id, message.context) in known
        if message.id and not is_known and BY_HAND & set(message.user_comments):
            new.add(**_as_kept(message))
    for text in texts:
        kept = old.get(text.english, text.context)
        string = kept.string if kept else ""
        new.add(text.english, string, auto_comments=[text.where], context=text.context)
    return new


def _as_kept(message: Any) -> dict[str, Any]:
    return {
        "id": message.id,
        "string": message.string,
        "user_comments": message.user_comments,
        "context": message.context,
    }


def write(catalogue: Catalog, path: Path) -> None:
    """Write a catalogue as translators read it, the same bytes for the same texts."""
    with path.open("wb") as file:
        write_po(file, catalogue, width=100, sort_output=False, ignore_obsolete=True)


if __name__ == "__main__":
    for name, font in language.FONTS.items():
        if font is not None:
            path = language.path_of(name)
            made = updated(language.catalogue(name) if path.exists() else Catalog(name))
            write(made, path)
            lacking = [message.id for message in made if message.id and not message.string]
            print(f"{path.name}: {len(lacking)} of {len(made)} texts lack a translation")
