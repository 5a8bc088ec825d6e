"""JSON that came from elsewhere is read within bounds, or refused in one line."""

import os
from pathlib import Path

import pytest

from innolab.base import parsing
from innolab.report import svg


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 1}', "the key 'a' appears twice"),
        ('{"a": {"b": 1, "c": 2, "b": 1}}', "the key 'b' appears twice"),
        ("[" * 100_000, "nested too deep"),
        ("1" * 5000, "a number of 5,000 digits"),
        ("-" + "1" * 41, "a number of 42 digits"),
        ("NaN", "not a finite number"),
        ("[1e999]", "not a finite number"),
        ("{", "Expecting property name"),
        ("[" * 60 + "]" * 60, "nested deeper than 50 levels"),
        ('{"a":' * 60 + "1" + "}" * 60, "nested deeper than 50 levels"),
    ],
)
def test_json_that_readers_would_take_differently_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        parsing.from_json(text)
    assert len(parsing.reason(caught.value)) <= 300


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("[" * 5000, "nested too deep"),
        ("a: 1\nb: 2\na: 3\n", "the key 'a' appears twice"),
        ("a: &x [1]\nb: *x\n", "an alias"),
        ("&x [*x]", "an alias"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", "an alias"),
        ("a: b: c", "mapping values are not allowed"),
        ("2026-99-99", "month must be in"),
        ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_yaml_that_could_grow_or_be_taken_differently_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parsing.yaml_value(parsing.yaml_node(text))


def test_no_more_of_a_file_is_read_than_is_allowed(tmp_path: Path) -> None:
    # One of /proc has no size and any content.
    with pytest.raises(ValueError, match="more than 10 bytes"):
        parsing.read_text(Path("/proc/self/status"), 10)


def test_a_file_that_is_too_large_or_none_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(20 * 2**30)
    with pytest.raises(ValueError, match="21,474,836,480 bytes"):
        parsing.read_text(large)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("pipe", "link", "binary", "nothing", "."):
        with pytest.raises(ValueError, match=r"."):
            parsing.read_text(tmp_path / name)


def test_a_picture_is_settled_once_and_for_all() -> None:
    drawn = (
        '<clipPath id="p0123456789"><rect x="1.005" y="-0.001" width="10" height="9.999999"/>'
        '</clipPath><g transform="translate(1.23456 -7.1) scale(0.015625)" '
        'clip-path="url(#p0123456789)"><!-- 3.14159 --></g>'
    )
    settled = svg.settled(drawn, "sweep")
    assert svg.settled(settled, "sweep") == settled
    assert 'id="sweep-1"' in settled
    assert "url(#sweep-1)" in settled
    assert 'y="0"' in settled
    assert "translate(1.23 -7.1) scale(0.015625)" in settled
    assert "<!-- 3.14159 -->" in settled, "a label is no coordinate"
