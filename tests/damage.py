"""Damage to files that a user gives: of bytes, of words, and of JSON, drawn by hypothesis."""

import json
import re
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

PLACE = "@@here@@"
DEEP = 3000
# Texts that stand where a JSON value should, or where none can.
HOSTILE = [
    *("null", "true", "-1", "0", "1.5", "-0.0", "1e308", "1e400", "NaN", "-Infinity", "[]", "{}"),
    *('""', '"\\ud800"', '"\\u0000"', '"a\\nb\\u001b[2J"', '{"\\ud800": 1}', '{"a": 1, "a": 2}'),
    *("nul", '"', "9" * 5000, json.dumps("x" * 100_000), "[[], [{}]]", '[{"id": 5}]'),
    "[" * DEEP + "]" * DEEP,
    '{"a":' * DEEP + "1" + "}" * DEEP,
    *('"2026-99-99"', '"../../etc/passwd"', '"{{ lookup(1) }}"', '"-o \'x"', '"~nosuchuser/key"'),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
).map(json.dumps)


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def places(body: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the keys that lead to each node of a JSON body, but to itself."""
    steps = body.items() if isinstance(body, dict) else enumerate(body)
    inner = [
        places(x, (*place, k)) if isinstance(x, dict | list) else [(*place, k)] for k, x in steps
    ]
    return [*([place] if place else []), *(found for many in inner for found in many)]


@st.composite
def damaged_json(draw: st.DrawFn, text: str, places: list[tuple[Any, ...]]) -> str:
    """Draw a JSON text with one node replaced, dropped, or there twice."""
    body = json.loads(text)
    *way, last = draw(st.sampled_from(places))
    parent = body
    for step in way:
        parent = parent[step]
    how = draw(st.sampled_from(["replaced", "replaced", "dropped", "twice"]))
    if how == "dropped":
        del parent[last]
    elif how == "twice" and isinstance(parent, dict):
        return json.dumps(_with(body, parent, PLACE)).replace(PLACE, last)
    else:
        parent[last] = PLACE
    value = draw(st.sampled_from(HOSTILE) | VALUES)
    return json.dumps(body).replace(f'"{PLACE}"', value)


def _with(body: Any, parent: dict[str, Any], name: str) -> Any:
    parent[name] = None
    return body


@st.composite
def damaged_bytes(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw bytes that were cut, flipped, repeated or mixed with others."""
    at = draw(st.integers(0, len(data) - 1))
    to = min(len(data), at + draw(st.integers(1, 300)))
    return draw(
        st.sampled_from(
            [
                data[:at],
                data[at:],
                data[:at] + data[to:],
                data[:to] + data[at:],
                data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :],
                data[:at] + draw(st.binary(max_size=8)) + data[at:],
                data[:at] + b"\n" + data[at:],
            ]
        )
    )


def damaged(text: str) -> st.SearchStrategy[bytes]:
    as_json = damaged_json(text, places(json.loads(text)))
    return as_json.map(lambda text: text.encode("utf-8", "surrogatepass")) | damaged_bytes(
        text.encode()
    )


@st.composite
def damaged_words(draw: st.DrawFn, text: str, hostile: list[str]) -> bytes:
    """Draw a text of which one or two words, or all of a line, are others."""
    for _ in range(draw(st.integers(1, 2))):
        found = draw(st.sampled_from(list(re.finditer(r"[\w.+-]+|[^\w\s]|[^\n]+\n", text))))
        word = draw(st.sampled_from(hostile) | st.text(max_size=12))
        text = text[: found.start()] + word + text[found.end() :]
        if not re.search(r"\S", text):
            break
    return text.encode("utf-8", "surrogatepass")
