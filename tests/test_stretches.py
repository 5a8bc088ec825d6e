"""What the counters of a server are taken to say, which servers are refused, and which steps."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from innolab.base.errors import InputError
from innolab.hosts import observe
from innolab.sizing import ladder, stretches
from innolab.sizing.ladder import Rung
from innolab.sizing.server_status import Facts, ServerTable, Stretch, Visit
from innolab.sizing.target import Target

MIB = 2**20
_POOL = {
    "innodb_buffer_pool_size": str(512 * MIB),
    "innodb_buffer_pool_chunk_size": str(64 * MIB),
    "innodb_buffer_pool_instances": "2",
    "innodb_flush_method": "O_DIRECT",
}
_TABLES = (ServerTable("shop.orders", 1000, 300), ServerTable("shop.log", 5000, 700))


def _facts(version: str = "9.7.0", comment: str = "", **variables: str) -> Facts:
    return Facts.model_validate(
        {"version": version, "version_comment": comment, **_POOL, **variables, "tables": _TABLES}
    )


def _stretch(
    used: Mapping[tuple[str, str | None], tuple[int, int]] | None = None,
    free: float = 0.0,
    later: float = 1.0,
    first: float = 1.0,
) -> Stretch:
    """Return twelve seconds of 100 statements that read 50 pages each.

    `first` times as many in the first half, `later` times in the other.
    """
    samples, reads = [], 0.0
    for second in range(13):
        samples.append(
            {
                "t_s": float(second), "Questions": 100.0 * second, "Innodb_pages_read": reads,
                "Innodb_buffer_pool_read_requests": 90_000.0 * second,
                "Innodb_buffer_pool_read_ahead": 0.0, "clients": 4.0,
                "Innodb_buffer_pool_pages_data": 1000.0 - free,
                "Innodb_buffer_pool_pages_free": free, "Innodb_buffer_pool_pages_total": 1000.0,
            }
        )  # fmt: skip
        reads += 5000.0 * (later if second >= 6 else first)
    orders = {("shop.orders", "PRIMARY"): (10, 0)}
    return Stretch(samples, 700.0, 3.0, orders if used is None else used)


def test_a_stretch_becomes_a_point() -> None:
    found = stretches.point(_stretch(), 512 * MIB)
    assert (found.seconds, found.statements, found.reads) == (12, 1200, 60_000)
    assert found.reads_a_statement == 50
    assert found.promoted == 700
    assert found.spread == 0
    assert stretches.rate_spread(_stretch()) == pytest.approx(0)
    silent = Stretch(_stretch().samples, math.nan, math.nan, {})
    assert stretches.point(silent, 512 * MIB).promoted is None


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({("shop.orders", "PRIMARY"): (10, 0)}, 1000),
        ({("shop.orders", None): (10, 0)}, 1000),
        ({("shop.orders", "by_day"): (10, 0)}, 1300),
        ({("shop.orders", "PRIMARY"): (10, 5)}, 1300),
        ({("shop.orders", "PRIMARY"): (1, 0), ("shop.log", None): (0, 3)}, 1000 + 5700),
        ({}, 7000),
    ],
)
def test_data_are_the_tables_that_were_asked_for(
    used: dict[tuple[str, str | None], tuple[int, int]], expected: int
) -> None:
    assert stretches.asked_bytes(_facts(), _stretch(used)) == expected


def _doubts(facts: Facts, stretch: Stretch, *rungs: Rung) -> str:
    return " ".join(
        stretches.doubts(facts, stretch, stretches.point(stretch, 512 * MIB), list(rungs))
    )


def test_what_makes_numbers_doubtful_is_said() -> None:
    assert _doubts(_facts(), _stretch()) == ""
    assert "operating system's cache" in _doubts(_facts(innodb_flush_method="fsync"), _stretch())
    assert "MariaDB" in _doubts(_facts("10.11.6-MariaDB"), _stretch())
    assert "30% of the pool is free" in _doubts(_facts(), _stretch(free=300))
    assert "changed by 100%" in _doubts(_facts(), _stretch(later=2.0))
    hidden = _stretch({("shop.orders", "PRIMARY"): (1, 0), ("secret.t", None): (1, 0)})
    assert "are not seen (1, such as secret.t)" in _doubts(_facts(), hidden)
    left = Rung(256 * MIB, None, "a question for counters waited 2 s")
    assert "256 MiB was left at once: a question" in _doubts(_facts(), _stretch(), left)
    filling = Rung(1024 * MIB, _stretch(free=300))
    assert "1 GiB had not filled" in _doubts(_facts(), _stretch(), filling)
    assert "1 GiB was not tried" in _doubts(_facts(), _stretch(), Rung(1024 * MIB, None))


def test_a_change_from_nothing_is_no_percentage() -> None:
    """Of few reads it is chance, and of none in one half no number."""
    assert "went from or to none" in _doubts(_facts(), _stretch(first=0.0))
    assert _doubts(_facts(), _stretch(first=0.0, later=0.001)) == ""


def test_only_rungs_as_wanted_are_taken() -> None:
    there = Rung(1024 * MIB, _stretch())
    assert stretches.point_of(there) == stretches.point(_stretch(), 1024 * MIB)
    for left in (
        Rung(1024 * MIB, _stretch(), "had not levelled off"),
        Rung(1024 * MIB, _stretch(free=300)),
        Rung(1024 * MIB, None, "a stall"),
    ):
        assert stretches.point_of(left) is None
        assert "taken" in _doubts(_facts(), _stretch(), left)


class _Silent(Visit):
    """A server that answers from a list."""

    def __init__(self, shown: Mapping[str, str]) -> None:
        super().__init__(Target(socket="/nowhere"))
        self.connection = SimpleNamespace(read_timeout=20)
        self._shown_rows = list(shown.items())

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return list(self._shown_rows) if sql.startswith("SHOW GLOBAL VARIABLES") else []


def test_a_server_that_is_too_old_or_has_no_innodb_is_refused() -> None:
    with pytest.raises(InputError, match=r"takes MySQL 5\.6 or later"):
        _Silent({"version": "5.1.73-log", **_POOL}).facts()
    with pytest.raises(InputError, match="has no InnoDB"):
        _Silent({"version": "8.0.36"}).facts()
    assert _Silent({"version": "5.6.24", **_POOL}).facts().release == (5, 6, 24)


def _with_memory(monkeypatch: pytest.MonkeyPatch, available: int, total: int) -> None:
    memory = {"available": available * MIB, "total": total * MIB}
    monkeypatch.setattr(observe, "memory_bytes", lambda _: memory)


def test_steps_are_what_the_server_rounds_to_larger_ones_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _with_memory(monkeypatch, 4000, 8000)
    wanted = [300 * MIB, 600 * MIB, 1000 * MIB]
    assert ladder.planned(_facts(), wanted, is_local=True) == [
        640 * MIB, 1024 * MIB, 384 * MIB,
    ]  # fmt: skip
    assert ladder.planned(_facts("5.6.24"), [], is_local=False) == []


@pytest.mark.parametrize(
    ("facts", "wanted", "said"),
    [
        (_facts(), [200, 300], "at most one step"),
        (_facts(), [100], "no less than 50%"),
        (_facts(), [500], "is what there is"),
        (_facts("5.6.24"), [640], "only from 5.7.5 on"),
        (_facts("5.7.4"), [640], "only from 5.7.5 on"),
        (_facts("11.4.2-MariaDB"), [640], "tested on MySQL alone"),
    ],
)
def test_steps_that_cannot_be_are_refused(facts: Facts, wanted: list[int], said: str) -> None:
    with pytest.raises(InputError, match=said):
        ladder.planned(facts, [size * MIB for size in wanted], is_local=False)


def test_memory_that_the_host_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="does not fit this host"):
        ladder.planned(_facts(), [900_000 * MIB], is_local=True)
    # 512 MiB more take 563, and a tenth of 8000 stays.
    _with_memory(monkeypatch, 1350, 8000)
    with pytest.raises(InputError, match="does not fit this host"):
        ladder.planned(_facts(), [1024 * MIB], is_local=True)
    _with_memory(monkeypatch, 1370, 8000)
    assert ladder.planned(_facts(), [1024 * MIB], is_local=True) == [1024 * MIB]


def test_memory_of_another_host_is_not_known() -> None:
    with pytest.raises(InputError, match="only where the server is asked by its socket"):
        ladder.planned(_facts(), [1024 * MIB], is_local=False)
    assert ladder.planned(_facts(), [384 * MIB], is_local=False) == [384 * MIB]
