"""Tables of the reference, written from the code: parameters, forms, checks, devices, verbs."""

import csv
import dataclasses
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from innolab import cli, studies
from innolab.analysis.evidence import Check
from innolab.base import errors
from innolab.base.units import bytes_text, number
from innolab.storage.profiles import Profile, profiles
from innolab.studies.parameters import Parameters
from innolab.studies.study import Study

ROOT = Path(__file__).parent.parent
_ENTRY = re.compile(r"(?P<names>[\w, ]+?) : (?P<says>.*)", re.DOTALL)
_ROLES = {
    "asks": "Asks of results: `innolab render` may change it.",
    "repeats": "Does not change what is measured.",
}


def names() -> list[str]:
    """Return the names of the studies of this project."""
    own = Path(studies.__file__).parent
    return sorted(path.parent.name.replace("_", "-") for path in own.glob("*/study.py"))


def decision_files() -> list[Path]:
    """Return the files of the decision records, in their order."""
    return sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


def decisions() -> str:
    """Return the page that lists the decision records."""
    listed = [
        f"- [{int(path.name[:4])}. {re.sub(r'^[0-9]+[.] ', '', _title(path))}]({path.name})"
        for path in decision_files()
    ]
    head = "# Decisions\n\nWhy innolab is as it is: what was decided, and what else was considered."
    return "\n".join([head, "", *listed, ""])


def _title(path: Path) -> str:
    return path.read_text().partition("\n")[0].removeprefix("# ")


def attributes(of: Any) -> dict[str, str]:
    """Return what the docstrings of a class and of those above it say of its attributes, by name.

    >>> attributes(Parameters)["scale"]
    'the sizes; never ratios, such as that of the buffer pool to the data'
    """
    found: dict[str, str] = {}
    for one in reversed(inspect.getmro(of)):
        _, _, section = inspect.cleandoc(one.__dict__.get("__doc__") or "").partition(
            "Attributes\n----------\n"
        )
        for entry in re.split(r"\n(?=\S)", section.partition("\n\n")[0]):
            if matched := _ENTRY.fullmatch(entry):
                says = " ".join(matched["says"].split())
                found |= dict.fromkeys(matched["names"].split(", "), says)
    return found


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ((str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def fields(place: str) -> str:
    """Return the fields of a model or dataclass, named by its module and name.

    Raises
    ------
    LookupError
        Where a field has no description, so that a page cannot leave one unexplained.
    """
    module, _, name = place.rpartition(".")
    model = getattr(importlib.import_module(module), name)
    schema = TypeAdapter(model).json_schema()
    return table(["field", "what it is", "type"], _field_rows(schema, attributes(model), place))


def members(place: str) -> str:
    """Return the fields of a dataclass that code fills in, named by its module and name.

    Raises
    ------
    LookupError
        If a field that its docstring should explain is not there.
    """
    module, _, name = place.rpartition(".")
    model = getattr(importlib.import_module(module), name)
    known, says = [field.name for field in dataclasses.fields(model)], attributes(model)
    if missing := [name for name in says if name not in known]:
        raise LookupError(
            f"The docstring of {place} explains {missing[0]}, which it does not have."
        )
    return table(
        ["field", "what it is"], [(f"`{name}`", says[name]) for name in known if name in says]
    )


def _field_rows(
    schema: Mapping[str, Any], says: Mapping[str, str], place: str
) -> list[tuple[str, str, str]]:
    known = {name.rstrip("_"): text for name, text in says.items()}
    named = {name.rstrip("_"): of for name, of in schema["properties"].items()}
    if missing := sorted(named.keys() - known.keys()):
        raise LookupError(f"The docstring of {place} says nothing of: {', '.join(missing)}.")
    return [(f"`{name}`", known[name], _type(of)) for name, of in named.items()]


def _type(of: Mapping[str, Any]) -> str:
    """Return in words which values a JSON schema allows."""
    if "$ref" in of:
        return str(of["$ref"]).rpartition("/")[2].strip("_")
    if "anyOf" in of:
        return " or ".join(dict.fromkeys(_type(one) for one in of["anyOf"]))
    if "enum" in of or "const" in of:
        return ", ".join(f"`{value}`" for value in of.get("enum", [of.get("const")]))
    if of.get("type") == "array":
        each = [of["items"]] if "items" in of else of.get("prefixItems", [])
        return f"list of {' and '.join(map(_type, each))}"
    if of.get("type") == "object" and isinstance(of.get("additionalProperties"), dict):
        return f"mapping to {_type(of['additionalProperties'])}"
    kinds = {"object": "mapping", "string": "text", "date-time": "time", "date": "day"}
    kind = of.get("format", of.get("type", "any"))
    return " ".join([kinds.get(kind, str(kind)), *_limits(of)])


def _limits(of: Mapping[str, Any]) -> list[str]:
    words = {"minimum": "from {:,}", "exclusiveMinimum": "above {:,}", "maximum": "to {:,}"}
    return [text.format(of[name]) for name, text in words.items() if name in of]


def common_parameters() -> str:
    """Return the parameters that every study takes."""
    return _parameters(Parameters, list(Parameters.model_fields))


def _parameters(model: type[Parameters], wanted: Sequence[str]) -> str:
    properties = model.model_json_schema()["properties"]
    says = attributes(model)
    if missing := [name for name in wanted if name not in says]:
        raise LookupError(f"The docstring of {model.__name__} says nothing of: {missing}.")
    rows = []
    for name in wanted:
        role = next((role for role in _ROLES if name in model.with_role(role)), None)  # type: ignore[arg-type]
        text = f"{says[name][0].upper()}{says[name][1:]}. {_ROLES[role] if role else ''}".strip()
        default = model.model_fields[name].get_default(call_default_factory=True)
        allowed = _type(properties[name]).removesuffix(" or null")
        rows.append((f"`{name}`", text, f"{allowed}; {_value(default)}"))
    return table(["parameter", "what it is", "values"], rows)


def _value(value: Any) -> str:
    if value in (None, {}):
        return "none if left out"
    named = ", ".join(f"`{one}`" for one in (value if isinstance(value, list) else [value]))
    return f"{named} if left out"


def studies_list() -> str:
    """Return the studies with their questions."""
    rows = [(f"[`{name}`]({name}.md)", studies.find(name).question) for name in names()]
    return table(["study", "question"], rows)


def study_page(name: str) -> str:
    """Return the page of one study: parameters, grid, metrics, checks, looks, claims."""
    study = studies.find(name)
    parameters = study.parameters()
    rows_at = {scale: f"{getattr(study.parameters.ROWS, scale):,}" for scale in _scales()}
    parts = [
        f"# {name}",
        f"{study.title}{'' if study.title.endswith('?') else '.'} {study.question}",
        "## Parameters",
        "Beside [those of every study](index.md#what-every-study-takes):",
        _parameters(study.parameters, _own(study)) if _own(study) else "None.",
        "## Sizes and looks",
        table(["scale", "rows"], rows_at.items()),
        "Claims are judged after each block from the first to the last:",
        table(
            ["effort", "first block", "last block"],
            [(effort, *blocks) for effort, blocks in study.design.blocks._asdict().items()],
        ),
        "## Factors",
        f"At `scale=quick`, beside `server`; {len(study.arms(parameters, ''))} of their "
        "combinations are measured on each server.",
        table(["factor", "levels"], [*_levels(study.factors(parameters))]),
        *_within(study),
        "## Metrics",
        table(
            ["metric", "unit"], [(f"`{metric}`", unit) for metric, unit in study.kind.units.items()]
        ),
        "## Checks",
        "Every run must pass: "
        + ", ".join(study.kind.checks)
        + ". [What each prevents](../checks.md).",
        "## Claims",
        table(["id", "claim", "its source"], _claims(study)),
    ]
    return "\n\n".join(parts) + "\n"


def _scales() -> tuple[str, ...]:
    return ("smoke", "quick", "paper")


def _own(study: Study) -> list[str]:
    """Return the parameters that a study adds, or to which it gives another default or meaning."""
    common, own = _declared(Parameters), _declared(study.parameters)
    return [name for name in own if common.get(name) != own[name]]


def _declared(model: type[Parameters]) -> dict[str, tuple[Any, str | None]]:
    says = attributes(model)
    return {name: (of.default, says.get(name)) for name, of in model.model_fields.items()}


def _within(study: Study) -> list[str]:
    if not study.kind.within:
        return []
    return [
        "Varied inside one start of a server:",
        table(["factor", "levels"], _levels(study.kind.within)),
    ]


def _levels(factors: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, levels in factors.items():
        if isinstance(levels, Mapping):
            words = [f"{word} ({level:.4g})" if isinstance(level, float) else str(word)
                     for word, level in levels.items()]  # fmt: skip
        else:
            words = [str(level) for level in levels]
        yield f"`{name}`", ", ".join(words) or "as measured"


def _claims(study: Study) -> Iterable[tuple[str, str, str]]:
    for claim in study.claims():
        judged = "" if claim.not_measured is None else f" Not judged: {claim.not_measured}."
        yield f"`{claim.id}`", f"{claim.says}.{judged}", claim.stands


def statements(seed: str) -> str:
    """Return what became of each statement of a seed."""
    with (ROOT / "data" / "published" / "statements.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["seed"] == seed]
    head = ["line", "statement", "what became of it"]
    return table(head, [(row["line"], row["statement"], _outcome(row)) for row in rows])


def _outcome(row: Mapping[str, str]) -> str:
    named = [f"`{name}`" for name in [*row["claims"].split(), *row["figures"].split()]]
    page = f"[{row['study']}](studies/{row['study']}.md)"
    parts = [f"{row['outcome']}{': ' if named else ''}{', '.join(named)} ({page})", row["why"]]
    return ". ".join(part for part in parts if part)


def statement_counts() -> str:
    """Return how many statements of each seed had each outcome."""
    with (ROOT / "data" / "published" / "statements.csv").open(newline="") as file:
        counts = Counter((row["seed"], row["outcome"]) for row in csv.DictReader(file))
    seeds, outcomes = (sorted({key[at] for key in counts}) for at in (0, 1))
    rows = [(seed, *(counts[seed, outcome] for outcome in outcomes)) for seed in seeds]
    return table(["seed", *outcomes], rows)


def checks() -> str:
    """Return every check with what it prevents and the studies that have it."""
    users: dict[str, list[str]] = {}
    prevents: dict[str, str] = {}
    for name in names():
        study = studies.find(name)
        for check, examined in study.kind.checks.items():
            users.setdefault(check, []).append(f"[{name}](studies/{name}.md)")
            prevents.setdefault(check, _prevents(examined))
    rows = [(check, prevents[check], ", ".join(users[check])) for check in sorted(users)]
    return table(["check", "what it prevents", "studies"], rows)


def _prevents(check: Check) -> str:
    """Return the sentence of a check's docstring that says what it prevents.

    Raises
    ------
    LookupError
        Where it says nothing of the kind.
    """
    examine = check.examine
    outer = examine.__qualname__.partition(".")[0]
    says = inspect.getdoc(examine) or inspect.getdoc(vars(inspect.getmodule(examine))[outer]) or ""
    if not (found := re.search(r"Prevents\s.*?[.](?=\s|$)", says, re.DOTALL)):
        raise LookupError(f"The docstring of {examine.__qualname__} does not say what it prevents.")
    sentence = " ".join(found[0].split()).removeprefix("Prevents ")
    return f"{sentence[0].upper()}{sentence[1:]}"


def devices_of_limits() -> str:
    """Return the devices that are emulated by limits."""
    rows = [
        (f"`{one.name}`", *map(_limit, (one.read_iops, one.write_iops)),
         *map(_rate, (one.read_bytes_per_s, one.write_bytes_per_s)), one.note)
        for one in _profiles(timed=False)
    ]  # fmt: skip
    head = ["device", "reads/s", "writes/s", "read", "written", "note"]
    return table(head, rows)


def devices_of_times() -> str:
    """Return the devices that are emulated by service times."""
    rows = []
    for one in _profiles(timed=True):
        times = one.times
        assert times is not None
        kind = "arms" if times.turn_s else "channels"
        cache = bytes_text(times.cache_bytes) if times.cache_bytes else "none"
        rows.append((f"`{one.name}`", f"{times.units:g} {kind}", cache, one.note))
    return table(["device", "parts", "write cache", "note"], rows)


def _profiles(*, timed: bool) -> list[Profile]:
    return [one for one in profiles().values() if (one.times is not None) == timed]


def _limit(value: float | None) -> str:
    return "no limit" if value is None else number(value)


def _rate(value: float | None) -> str:
    return "no limit" if value is None else f"{value / 1e6:,.0f} MB/s"


def commands() -> str:
    """Return every verb of the command line with its arguments and options, and an example."""
    import typer
    from typer.cli import get_docs_for_click

    app = typer.main.get_command(cli.app)
    context: Any = typer.Context(app, info_name="innolab")
    written = get_docs_for_click(obj=app, ctx=context, name="innolab", indent=1)
    # Its list of verbs cuts sentences short, and each verb follows.
    written = re.sub(r"\*\*Commands\*\*:\n\n.*?\n\n(?=#)", "", written, flags=re.DOTALL)
    return re.sub(r"Example: (innolab .*)", r"**Example**: `\1`", written)


def exit_statuses() -> str:
    """Return what each exit status means, by the docstrings of the errors."""
    rows: list[tuple[int, str]] = [(0, "Done.")]
    for error in (errors.InnolabError, errors.InputError):
        rows.append((error.exit_status, str(inspect.getdoc(error)).partition("\n")[0]))
    return table(["exit status", "meaning"], rows)


def targets() -> str:
    """Return the targets of the Makefile."""
    found = re.findall(r"^([a-z-]+):.*?## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return table(["target", "what it does"], [(f"`make {name}`", says) for name, says in found])
