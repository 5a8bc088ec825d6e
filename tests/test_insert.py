"""The load of many inserts: its table, keys and strings as real servers keep them."""

import itertools
import math
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from innolab import studies
from innolab.base.errors import InnolabError
from innolab.bench import sysbench
from innolab.hosts import machine
from innolab.mysql import builds, server
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, ServerError, base_settings_file
from innolab.studies.compressed_insert import inserts
from innolab.studies.compressed_insert.inserts import Load
from innolab.studies.study import Arm

OLD, TODAY = "mysql-5.6.24", "mysql-9.7"
TABLE = f"{sysbench.SCHEMA}.{inserts.TABLE}"
KEYS = 2**31
SAME = "jejuhallasanseogwipo"
INDEX_PAGE = 17855
integration = pytest.mark.integration
# What is sysbench's or our script's own doing does not differ by server.
today_only = pytest.mark.parametrize("build", [TODAY], indirect=True)
old_only = pytest.mark.parametrize("build", [OLD], indirect=True)
_FORMATS = ("plain", "compressed", "page")


@pytest.fixture(scope="module", params=[OLD, TODAY])
def build(request: pytest.FixtureRequest) -> Build:
    found = builds.find(machine.cache_folder(), request.param)
    assert isinstance(found, Build), f"make setup could not bring {request.param}: {found}"
    return found


@pytest.fixture(scope="module")
def running(build: Build, reports: Path) -> Iterator[Server]:
    """A server with the study's settings at its smallest scale, and an empty schema."""
    study = studies.find("compressed-insert")
    parameters = study.check({"scale": "smoke"})
    settings = study.settings(parameters, Arm(pool="4G"), {})
    base = base_settings_file(machine.cache_folder())
    data = reports / f"inserts-{build.id}"
    server.initialize(build, data, base, study.dataset(parameters).made_with)
    with Server(build, data, reports / f"inserts-run-{build.id}", base, settings) as one:
        one.query(f"CREATE DATABASE {sysbench.SCHEMA}")
        yield one


def _made(running: Server, form: str = "plain", key_block_kib: int = 4) -> list[dict[str, Any]]:
    running.query(f"DROP TABLE IF EXISTS {TABLE}")
    return inserts.Table(form, key_block_kib, 16).create(running)


def _load(**changes: Any) -> Load:
    usual = {"threads": 6, "rows_per_statement": 1, "keys": "auto", "random_share": 0.5, "seed": 1}
    return Load(**{**usual, **changes})


def _rows(running: Server) -> list[tuple[Any, ...]]:
    return running.query(f"SELECT NO, EMAIL, NAME FROM {TABLE} ORDER BY NO")


# The table


@integration
def test_the_table_is_the_seeds(running: Server) -> None:
    _made(running)
    columns = running.query(
        "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLUMN_KEY, EXTRA, "
        f"CHARACTER_SET_NAME FROM information_schema.columns WHERE TABLE_NAME = '{inserts.TABLE}' "
        f"AND TABLE_SCHEMA = '{sysbench.SCHEMA}' ORDER BY ORDINAL_POSITION"
    )
    # 5.6 calls it by the name of its time, and says how wide it would print a number.
    charset = "utf8" if running.build.id == OLD else "utf8mb3"
    number = "int(11)" if running.build.id == OLD else "int"
    assert columns == [
        ("NO", number, "NO", None, "PRI", "auto_increment", None),
        ("EMAIL", "varchar(128)", "YES", None, "", "", charset),
        ("NAME", "varchar(32)", "NO", None, "", "", charset),
    ]
    [(_, created)] = running.query(f"SHOW CREATE TABLE {TABLE}")
    assert re.findall(r"KEY.*\(.*\)", created) == ["KEY (`NO`)", "KEY ()"]
    assert "PRIMARY KEY (`NO`)" in created
    assert f"ENGINE=InnoDB DEFAULT CHARSET={charset}\n" in created
    assert re.search(r"PARTITION BY KEY \(\)\s+PARTITIONS 3\b", created)


@integration
@pytest.mark.parametrize(
    "form, key_block_kib, row_format, zip_page_bytes, words",
    [
        ("plain", 4, None, 0, ""),
        ("compressed", 4, "compressed", 4096, " ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4"),
        ("compressed", 8, "compressed", 8192, " ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8"),
    ],
)
def test_a_table_is_made_as_asked(
    running: Server,
    form: str,
    key_block_kib: int,
    row_format: str | None,
    zip_page_bytes: int,
    words: str,
) -> None:
    made = _made(running, form, key_block_kib)
    usual = "compact" if running.build.id == OLD else "dynamic"
    assert [one["row_format"] for one in made] == [row_format or usual] * 3
    assert [one["zip_page_bytes"] for one in made] == [zip_page_bytes] * 3
    assert made == inserts.partitions(running)
    [(_, created)] = running.query(f"SHOW CREATE TABLE {TABLE}")
    assert re.search(rf"CHARSET=utf8\w*{words}\n", created)


@integration
@today_only
def test_page_compression_gives_the_disk_back_what_it_saves(running: Server) -> None:
    sizes = {}
    for form in ("plain", "page"):
        _made(running, form)
        inserts.run(running, _load(rows_per_statement=20), 20_000)
        _leaf_pages_in_files(running, 16)
        made = inserts.partitions(running)
        assert all(("compression=" in one["options"]) == (form == "page") for one in made)
        sizes[form] = [sum(one[of] for one in made) for of in ("file_bytes", "allocated_bytes")]
    assert sizes["plain"][1] >= sizes["plain"][0]
    assert sizes["page"][1] < sizes["page"][0]


@integration
@old_only
def test_a_server_without_page_compression_refuses_the_table(running: Server) -> None:
    with pytest.raises(ServerError, match=r"refused a statement: 1064 .*near 'COMPRESSION='zlib'"):
        _made(running, "page")


@integration
@pytest.mark.parametrize("key_block_kib", [3, 32])
def test_strict_mode_refuses_an_impossible_page(running: Server, key_block_kib: int) -> None:
    with pytest.raises(ServerError, match=r"refused a statement: 1031 .*doesn't have this option"):
        _made(running, "compressed", key_block_kib)


@pytest.fixture
def lenient(running: Server) -> Iterator[Server]:
    """The server, building what it can where it cannot build what it is asked for."""
    running.query("SET GLOBAL innodb_strict_mode = OFF")
    yield running
    running.query("SET GLOBAL innodb_strict_mode = ON")


@integration
def test_pages_of_another_size_than_asked_for_are_explained(lenient: Server) -> None:
    with pytest.raises(InnolabError, match=r"another table .*partition 2 has pages of 8192 bytes"):
        _made(lenient, "compressed", 3)


@integration
@old_only
def test_a_table_that_is_compressed_in_name_only_is_explained(lenient: Server) -> None:
    """5.6 only warns: its words of CREATE TABLE still say COMPRESSED."""
    lenient.query("SET GLOBAL innodb_file_format = Antelope")
    try:
        with pytest.raises(
            InnolabError, match=r"another table .*partition 0 has row format compact"
        ):
            _made(lenient, "compressed")
        [(_, created)] = lenient.query(f"SHOW CREATE TABLE {TABLE}")
        assert "ROW_FORMAT=COMPRESSED" in created
    finally:
        lenient.query("SET GLOBAL innodb_file_format = Barracuda")


RIGHT = {
    "plain": {"row_format": "dynamic", "zip_page_bytes": 0, "options": "", "file_bytes": 114_688},
    "compressed": {
        "row_format": "compressed",
        "zip_page_bytes": 4096,
        "options": "row_format=compressed key_block_size=4",
        "file_bytes": 28_672,
    },
    "page": {
        "row_format": "dynamic",
        "zip_page_bytes": 0,
        "options": 'compression="zlib"',
        "file_bytes": 114_688,
    },
}


@pytest.mark.parametrize("form", _FORMATS)
def test_a_table_as_asked_has_no_fault(form: str) -> None:
    assert inserts.faults(form, 4, [RIGHT[form]] * 3) == ""


@pytest.mark.parametrize("asked, made", list(itertools.permutations(_FORMATS, 2)))
def test_a_table_of_another_format_has_faults(asked: str, made: str) -> None:
    assert inserts.faults(asked, 4, [RIGHT[made]] * 3)


@pytest.mark.parametrize(
    "form, change, named",
    [
        ("plain", {"row_format": "compressed"}, "partition 1 has row format compressed"),
        ("plain", {"options": 'compression="zlib"'}, "partition 1 was made with 'compression=\"z"),
        ("compressed", {"row_format": "compact"}, "partition 1 has row format compact"),
        ("compressed", {"zip_page_bytes": 8192}, "partition 1 has pages of 8192 bytes"),
        ("page", {"row_format": "compressed"}, "partition 1 has row format compressed"),
        ("page", {"options": ""}, "partition 1 was made with ''"),
    ],
)
def test_a_fault_of_one_partition_is_named(form: str, change: dict[str, Any], named: str) -> None:
    wrong = inserts.faults(form, 4, [RIGHT[form], {**RIGHT[form], **change}, RIGHT[form]])
    assert named in wrong
    assert "partition 0" not in wrong
    assert "partition 2" not in wrong


def test_a_fresh_file_too_large_for_its_compressed_pages_is_named() -> None:
    """Sizes as both servers make them, of 16 KiB pages: plain 98,304 or 114,688 bytes."""
    table = inserts.Table("compressed", 4, 16)
    for size in (28_672, 65_536):
        assert table.too_large([{"file_bytes": size}] * 3) == ""
    for size in (98_304, 114_688):
        wrong = table.too_large([{"file_bytes": 28_672}, {"file_bytes": size}])
        assert wrong.startswith(f"the fresh file of partition 1 has {size:,} bytes")
    assert inserts.Table("plain", 4, 16).too_large([{"file_bytes": 114_688}]) == ""


@pytest.mark.parametrize("number", [0, 1, 4])
def test_another_number_of_partitions_is_a_fault(number: int) -> None:
    wrong = inserts.faults("plain", 4, [RIGHT["plain"]] * number)
    assert wrong == f"{number} partitions instead of 3"


# The rows


@integration
@pytest.mark.parametrize("rows_per_statement", [1, 7])
@pytest.mark.parametrize("keys", ["auto", "shuffled"])
def test_rows_are_exact_where_threads_do_not_divide_them(
    running: Server, keys: str, rows_per_statement: int
) -> None:
    _made(running)
    rows, threads = 7 * 143, 6
    assert rows % threads and rows // rows_per_statement % threads
    load = _load(threads=threads, rows_per_statement=rows_per_statement, keys=keys)
    done = inserts.run(running, load, rows)
    assert inserts.state(running)[0] == rows
    assert done.result.transactions == rows // rows_per_statement
    assert (done.result.errors, done.result.reconnects) == (0, 0)
    assert done.cpu_s > 0


def test_rows_that_are_no_whole_statements_are_refused() -> None:
    unreached: Any = SimpleNamespace()
    with pytest.raises(ValueError, match="1000 rows are no whole statements of 7"):
        inserts.argv(unreached, _load(rows_per_statement=7), 1000)


@integration
@today_only
def test_strings_are_as_long_as_they_should_be(running: Server) -> None:
    _made(running)
    inserts.run(running, _load(random_share=1, rows_per_statement=20), 4000)
    letters = set()
    lengths: tuple[set[int], set[int]] = (set(), set())
    for _, email, name in _rows(running):
        local = re.fullmatch(r"([a-z]+)@example\.com", email)
        assert local and re.fullmatch("[a-z]+", name)
        lengths[0].add(len(local[1]))
        lengths[1].add(len(name))
        letters |= set(local[1])
    assert lengths == (set(range(7, 14)), set(range(7, 16)))
    assert len(letters) == 26


@integration
@today_only
def test_the_share_of_a_string_that_is_drawn_is_its_beginning(running: Server) -> None:
    _made(running)
    inserts.run(running, _load(random_share=0.3), 1000)
    beginnings = set()
    for _, email, name in _rows(running):
        for text in (email.removesuffix("@example.com"), name):
            drawn = math.ceil(0.3 * len(text))
            assert text[drawn:] == SAME[: len(text) - drawn]
            beginnings.add(text[:drawn])
    assert len(beginnings) > 1000


@integration
@today_only
def test_what_is_drawn_cannot_be_pressed_together(running: Server) -> None:
    ratios = []
    for share in (0, 0.5, 1):
        _made(running)
        inserts.run(running, _load(random_share=share, rows_per_statement=20), 4000)
        ratios.append(_zlib_ratio(running))
    assert ratios[0] > 2 * ratios[1]
    assert ratios[1] > 1.2 * ratios[2]
    assert ratios[2] > 1


@integration
@today_only
def test_no_thread_draws_what_another_drew(running: Server) -> None:
    _made(running)
    rows = 3000
    inserts.run(running, _load(threads=30, random_share=1), rows)
    assert len({(email, name) for _, email, name in _rows(running)}) == rows


@integration
@today_only
def test_a_seed_draws_the_same_rows_and_another_seed_others(running: Server) -> None:
    """On one thread: of several, which gets which row is a race."""
    drawn = []
    for seed in (5, 5, 6):
        _made(running)
        inserts.run(running, _load(threads=1, random_share=1, seed=seed), 500)
        drawn.append(_rows(running))
    assert drawn[0] == drawn[1]
    assert not {row[1:] for row in drawn[0]} & {row[1:] for row in drawn[2]}


# Shuffled keys


def _keys_in_order(running: Server, rows: int) -> list[int]:
    """Return shuffled keys as one thread sends them, also those that S1's table would number."""
    running.query(f"DROP TABLE IF EXISTS {TABLE}")
    running.query(
        f"CREATE TABLE {TABLE} (NO BIGINT PRIMARY KEY, EMAIL varchar(128), NAME varchar(32), "
        "place int NOT NULL AUTO_INCREMENT UNIQUE) ENGINE=InnoDB"
    )
    inserts.run(running, _load(threads=1, keys="shuffled", rows_per_statement=20), rows)
    return [int(key) for (key,) in running.query(f"SELECT NO FROM {TABLE} ORDER BY place")]


@integration
@today_only
def test_shuffled_keys_are_spread_over_their_range_in_no_order(running: Server) -> None:
    rows = 16_000
    keys = np.array(_keys_in_order(running, rows))
    assert len(set(keys)) == rows
    # For 0 the server would take a number of its own; KEYS is beyond an INT.
    assert keys.min() >= 1
    assert keys.max() < KEYS
    for some in (keys, keys[: rows // 10]):
        sixteenths = np.bincount(some * 16 // KEYS, minlength=16) / len(some)
        assert sixteenths == pytest.approx(1 / 16, rel=0.25)
    # As of keys drawn at random: as often up as down, and gaps between them exponential, whose
    # standard deviation is their mean. Of multiples of a number they are all of three sizes.
    assert 0.3 < np.mean(np.diff(keys) > 0) < 0.7
    gaps = np.diff(np.sort(keys))
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.1)
    for lag in (1, 2, 7, 30):
        near = np.abs(keys[lag:] - keys[:-lag]) < KEYS / 1000
        assert near.mean() < 0.01, f"rows that are {lag} apart"
    assert abs(spearmanr(np.arange(rows), keys).statistic) < 0.05


@integration
def test_shuffled_keys_are_all_different_and_the_same_in_each_run(running: Server) -> None:
    _made(running)
    load = _load(keys="shuffled")
    inserts.run(running, load, 1200)
    keys = [key for key, _, _ in _rows(running)]
    assert len(set(keys)) == len(keys) == 1200
    assert min(keys) >= 1
    assert max(keys) < KEYS
    with pytest.raises(
        InnolabError, match=r"^sysbench ended with status [1-9]\d*\. .*error 1062 \(Duplicate entry"
    ):
        inserts.run(running, load, 1200)


# Errors


def _drop(running: Server) -> None:
    running.query(f"DROP TABLE {TABLE}")


def _deadlock(running: Server) -> None:
    """Fail some rows with the error that sysbench by itself would try again in silence."""
    running.query(
        f"CREATE TRIGGER {sysbench.SCHEMA}.unlucky BEFORE INSERT ON {TABLE} FOR EACH ROW "
        "IF NEW.NAME LIKE 'a%' THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, "
        "MESSAGE_TEXT = 'as if of a deadlock'; END IF"
    )


@integration
@today_only
@pytest.mark.parametrize(
    "spoil, said", [(_drop, "1146 .*doesn't exist"), (_deadlock, "1213 .*as if of a deadlock")]
)
def test_an_error_ends_the_run(running: Server, spoil: Callable[[Server], None], said: str) -> None:
    _made(running)
    spoil(running)
    with pytest.raises(InnolabError, match=rf"^sysbench ended with status [1-9]\d*\. .*{said}"):
        inserts.run(running, _load(), 600)


@integration
@today_only
def test_a_server_that_dies_in_the_middle_is_explained_as_dead(running: Server) -> None:
    _made(running)
    murder = threading.Timer(0.5, os.kill, (running.pid, signal.SIGKILL))
    murder.start()
    try:
        with pytest.raises(ServerError, match=r"died while it was working \(exit status -9\)"):
            inserts.run(running, _load(), 10_000_000)
    finally:
        murder.join()
        running.kill()
        running.start()
    assert inserts.state(running)[0] > 0, "it died before the middle"


# What came of it


@integration
def test_checksums_of_parts_give_that_of_the_whole(
    running: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inserts, "_DELETED_AT_ONCE", 100)
    _made(running)
    assert inserts.state(running) == (0, 0, 0)
    inserts.run(running, _load(), 500)
    first = inserts.state(running)
    inserts.run(running, _load(seed=2), 250)
    rest, whole = inserts.state(running, first[1]), inserts.state(running)
    assert (first[0], rest[0], whole[0]) == (500, 250, 750)
    assert first[1] < rest[1] == whole[1]
    assert first[2] ^ rest[2] == whole[2]
    assert len({first[2], rest[2], whole[2], 0}) == 4
    kept = _rows(running)[:500]
    assert inserts.shorten(running, first[1]) == 250
    assert inserts.state(running) == first
    assert _rows(running) == kept
    assert inserts.shorten(running, first[1]) == 0


@integration
@today_only
@pytest.mark.parametrize("change", ["NO = NO + 5000", "EMAIL = 'another'", "NAME = 'another'"])
def test_the_checksum_is_of_all_columns(running: Server, change: str) -> None:
    _made(running)
    inserts.run(running, _load(), 50)
    before = inserts.state(running)
    running.query(f"UPDATE {TABLE} SET {change} WHERE NO = 7")
    assert inserts.state(running)[2] != before[2]


@integration
def test_compressed_pages_are_counted_where_there_are_any(running: Server) -> None:
    counts = {}
    for form in ("plain", "compressed"):
        _made(running, form)
        before = inserts.Table("compressed", 4, 16).compression(running)
        inserts.run(running, _load(rows_per_statement=20), 6000)
        after = inserts.Table("compressed", 4, 16).compression(running)
        counts[form] = {name: after[name] - before[name] for name in after}
    assert counts["plain"] == {"compressed": 0, "failed": 0, "uncompressed": 0}
    assert 0 <= counts["compressed"]["failed"] < counts["compressed"]["compressed"]


def _zlib_ratio(running: Server) -> float:
    found = inserts.zlib_bytes(running)
    return found["text"] / found["compressed"]


def _leaf_pages_in_files(running: Server, page_kib: int) -> int:
    """Return the pages of the index that the files have, once the server has written all."""
    with running.connect() as connection:
        connection.cmd_query(f"FLUSH TABLES {TABLE} FOR EXPORT")
        texts = [file.read_bytes() for file in (running.data / sysbench.SCHEMA).glob("*#*.ibd")]
        connection.cmd_query("UNLOCK TABLES")
    size = page_kib * 1024
    kinds = [text[at + 24 : at + 26] for text in texts for at in range(0, len(text), size)]
    return kinds.count(INDEX_PAGE.to_bytes(2))


@integration
@pytest.mark.parametrize("form, page_kib", [("plain", 16), ("compressed", 4)])
def test_pages_of_the_index_are_those_of_its_rows(
    running: Server, form: str, page_kib: int
) -> None:
    """Not those that are only set aside for it, which are more than half of a small table's."""
    _made(running, form, page_kib)
    inserts.run(running, _load(rows_per_statement=20), 20_000)
    found = sum(inserts.leaf_pages(running).values())
    assert found == pytest.approx(_leaf_pages_in_files(running, page_kib), rel=0.05)
