"""What was given as NAME=VALUE, as the parameters of a study."""

from typing import Any

from innolab.base.errors import InputError

# As long as a path may be. Nothing that a message quotes is longer.
_MOST_CHARACTERS = 4096
_MOST_PARTS = 50


def parameters_of(
    study: Any, scale: str, given: list[str] | None, effort: str | None = None
) -> dict[str, Any]:
    """Return the parameters that were given, with scale and effort, not checked yet.

    Raises
    ------
    InputError
        Where one is not written as NAME=VALUE.
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
        Where it is too long, or holds too many lists and mappings.
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
