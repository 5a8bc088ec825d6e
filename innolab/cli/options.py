"""The arguments and options that several verbs share, and what a shell completes them to.

Completions read names of files alone: a shell asks at each press of a key, and must not wait for
libraries.
"""

from typing import Annotated, Any

import typer

from innolab.base import places
from innolab.base.errors import InputError

# As long as a path may be. Nothing that a message quotes is longer.
_MOST_CHARACTERS = 4096
_MOST_PARTS = 50


def study_names() -> list[str]:
    """Return the names of the studies."""
    from innolab import studies

    return studies.names()


def report_names() -> list[str]:
    """Return the sealed reports, each as STUDY/VERSION."""
    sealed = places.reports().glob("*/*/manifest.json")
    return sorted(path.parent.relative_to(places.reports()).as_posix() for path in sealed)


def _claims() -> list[str]:
    from innolab import studies

    return sorted({claim.id for name in studies.names() for claim in studies.find(name).claims()})


Scale = Annotated[
    str,
    typer.Option(
        help="smoke (a minute), quick (the default) or paper.",
        autocompletion=lambda: ["smoke", "quick", "paper"],
    ),
]
Effort = Annotated[
    str | None,
    typer.Option(
        help="smoke, quick, reference or a time as 90min; else that of the scale.",
        autocompletion=lambda: ["smoke", "quick", "reference"],
    ),
]
Named = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="NAME=VALUE", help="A parameter of the study."),
]
StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="See: innolab list", autocompletion=study_names)
]
ReportName = Annotated[
    str,
    typer.Argument(
        metavar="REPORT", help="A folder, or STUDY/VERSION.", autocompletion=report_names
    ),
]
ReportNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[REPORT...]",
        help="Folders, or STUDY/VERSION; else your newest.",
        autocompletion=report_names,
    ),
]
ClaimName = Annotated[
    str, typer.Argument(metavar="CLAIM", help="A claim's id.", autocompletion=_claims)
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead, as docs/json.md has it.")
]


def parameters_of(
    study: Any, scale: str, given: list[str] | None, effort: str | None = None
) -> dict[str, Any]:
    """Return the parameters that were given, with scale and effort, not checked yet.

    Raises
    ------
    InputError
        If one is not written as NAME=VALUE.
    """
    from innolab.base.quoting import shown

    result: dict[str, Any] = {"scale": scale, **({"effort": effort} if effort else {})}
    for item in given or []:
        name, equals, text = item.partition("=")
        if not equals or not name or not name.isprintable():
            raise InputError(
                f"{shown(item)} is no parameter; write it as NAME=VALUE, as in -p seed=7."
            )
        try:
            value = _value(text)
        except ValueError as why:
            raise InputError(f"{shown(name)} cannot be read: {why}. Nothing was written.") from None
        field = study.parameters.model_fields.get(name)
        if field is not None and field.annotation == list[str] and isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        result[name] = value
    return result


def _value(text: str) -> Any:
    """Return what a parameter's text holds as YAML. Text that is no YAML stays as it is.

    Raises
    ------
    ValueError
        If it is too long, or holds too many lists and mappings.
    """
    import yaml

    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"its value has {len(text):,} characters, and {_MOST_CHARACTERS:,} are the most allowed"
        )
    try:
        parts = 0
        for token in yaml.scan(text):
            # Aliases of aliases can stand for a billion values. No parameter needs them, nor tags.
            if isinstance(token, yaml.AliasToken | yaml.TagToken):
                return text
            parts += isinstance(token, yaml.FlowSequenceStartToken | yaml.FlowMappingStartToken)
            parts += isinstance(token, yaml.BlockSequenceStartToken | yaml.BlockMappingStartToken)
            if parts > _MOST_PARTS:
                break
        else:
            return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, ArithmeticError):
        # Also what only looks like a date or a number, such as 2026-99-99.
        return text
    raise ValueError(f"its value holds more than {_MOST_PARTS} lists and mappings")
