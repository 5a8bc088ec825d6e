"""Prepared table contents: built once per build, kept as a stopped data directory, cloned."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from innolab.base import files
from innolab.base.errors import InnolabError, InputError
from innolab.base.units import bytes_text
from innolab.hosts import machine
from innolab.hosts.base import Command, Host
from innolab.mysql import server
from innolab.mysql.builds import Build
from innolab.mysql.server import Server, Settings

_RECORD = "dataset.json"
# Folders of these names are deleted without asking, in a place that the user chose: no name that
# could be anybody else's.
WORK, HALF = "innolab-work", ".innolab-half"
# Loading is not measured: durability only costs time here. A slow shutdown leaves no undo to
# purge, which would read pages during a later measurement.
_LOADING: Settings = {
    "innodb_flush_log_at_trx_commit": 0,
    "innodb_doublewrite": "OFF",
    "innodb_flush_method": "O_DIRECT",
    "innodb_fast_shutdown": 0,
}

Say = Callable[[str], None]
# Of the outer of two loops, in one statement.
_AT_ONCE = 100


@dataclass(frozen=True)
class Recipe:
    """How table contents come to be.

    Attributes
    ----------
    name : folder name, readable
    spec : everything that the contents depend on, JSON; its digest names the dataset
    size_bytes : expected size of the data directory
    expected : what `verify` will find, about
    load : fills an empty running server
    verify : reads the loaded tables and returns facts about them, or raises InnolabError
    settings : server variables that loading wants beyond the common ones
    made_with : server variables that a data directory is made with and cannot change
    """

    name: str
    spec: dict[str, Any]
    size_bytes: int
    expected: dict[str, int]
    load: Callable[[Server, Say], None]
    verify: Callable[[Server], dict[str, Any]]
    settings: Settings
    made_with: Settings = field(default_factory=dict)

    def folder(self, cache: Path, build: Build) -> Path:
        """Return where the dataset of a build is kept."""
        digest = files.digest_of(self.spec)[:12]
        return cache / "datasets" / f"{self.name}-{digest}-{build.id}-{build.sha256[:8]}"


def _nothing(*_: Any) -> Any:
    return {}


# Of a study without a server.
NONE = Recipe("none", {}, 0, {"rows": 0, "data_bytes": 0}, _nothing, _nothing, {})


@dataclass(frozen=True)
class Dataset:
    """A prepared, verified, stopped data directory."""

    folder: Path
    facts: dict[str, Any]

    @property
    def data(self) -> Path:
        """Return the data directory."""
        return self.folder / "data"


def obtain(recipe: Recipe, build: Build, cache: Path, base: Path, say: Say) -> Dataset:
    """Return the dataset of a build, building it where the cache has none.

    Raises
    ------
    InnolabError
        If loading fails, or what was loaded is not what the recipe says.
    """
    folder = recipe.folder(cache, build)
    record = folder / _RECORD
    if recipe is NONE:
        return Dataset(folder, dict(recipe.expected))
    if record.exists():
        return Dataset(folder, json.loads(record.read_text()))
    half = folder.with_name(folder.name + HALF)
    # Not next to the data: with the dataset's name in it a socket's path would grow too long.
    place = cache / WORK / "loading"
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        say(f"initializing {build.id}")
        server.initialize(build, half / "data", base, recipe.made_with)
        settings = {**_LOADING, **recipe.settings, **recipe.made_with}
        with Server(build, half / "data", place, base, settings) as running:
            recipe.load(running, say)
            say("verifying the rows")
            facts = recipe.verify(running)
            say("stopping cleanly")
        (half / _RECORD).write_text(json.dumps(facts))
        shutil.rmtree(folder, ignore_errors=True)
        half.rename(folder)
    except BaseException:
        shutil.rmtree(half, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Dataset(folder, facts)


def has(recipe: Recipe, build: Build, cache: Path) -> bool:
    """Return whether the dataset is already there."""
    return (recipe.folder(cache, build) / _RECORD).exists()


def require_disk(cache: Path, needed_bytes: int) -> None:
    """Raise InputError where the cache's file system has not enough room, before any loading."""
    free = machine.free_disk_bytes(cache)
    if free < needed_bytes:
        raise InputError(
            f"This needs {bytes_text(needed_bytes)} in {cache}, which has {bytes_text(free)} free. "
            "Make room, take a smaller scale, or move the cache with INNOLAB_CACHE."
        )


@dataclass
class Copy:
    """A data directory on a host, that a server may run on.

    Attributes
    ----------
    data : the data directory
    log : the folder of the redo log, where that is not the data directory
    """

    host: Host
    data: Path
    log: Path | None = None

    def remove(self) -> None:
        """Remove the copy from its host."""
        self.host.remove(self.data, *([self.log] if self.log else []))


class Clone(Copy):
    """A copy of a dataset."""

    def __init__(self, host: Host, dataset: Dataset, folder: Path, log: Path | None = None) -> None:
        super().__init__(host, folder, log)
        source = host.hold(dataset.folder) / "data"
        self._tables = self._prints(source)
        host.remove(folder)
        host.must(["mkdir", "-p", folder.parent], what=f"Making {folder.parent}")
        # cp shares the blocks where the file system can (reflink), else copies at disk speed.
        copy: Command = ["cp", "--archive", "--reflink=auto", source, folder]
        host.must(copy, what=f"Copying {dataset.folder.name}")
        if log is not None:
            host.fresh_folder(log)
            # Up to 8.0.29 files, a folder since.
            redo = ["(", "-name", "ib_logfile*", "-o", "-name", "#innodb_redo", ")"]
            move: Command = [*redo, "-exec", "mv", "-t", log, "{}", "+"]
            host.must(["find", folder, "-maxdepth", "1", *move], what="Moving the redo log")
            host.evict(log)
        host.evict(folder)
        self.require_unchanged()

    def warm_log(self) -> None:
        """Read the redo log into the page cache, where a server that has run a while has its own.

        Prevents that a server up to 5.6 reads each block of it before it writes there.
        """
        # Up to 8.0.29 files, a folder since. A digest is all that they have to print.
        redo = ["(", "-name", "ib_logfile*", "-o", "-path", "*#innodb_redo/*", ")"]
        read: Command = ["find", self.log or self.data, *redo, "-type", "f", "-exec", "cksum"]
        self.host.must([*read, "{}", "+"], what="Reading the redo log")

    def require_unchanged(self) -> None:
        """Raise InnolabError where a table's file differs in size or time from the dataset's.

        A study that only reads may use one clone for many starts; this proves that it only read.
        """
        now = self._prints(self.data)
        changed = [name for name, print_ in self._tables.items() if now.get(name) != print_]
        if changed:
            raise InnolabError(
                f"The tables {', '.join(changed)} differ from the dataset they were cloned from, "
                "in a study that should only read."
            )

    def _prints(self, data: Path) -> dict[str, str]:
        """Return size and modification time of each table file of the schema `innolab`."""
        asked: Command = ["find", data / "innolab", "-name", "*.ibd", "-printf", "%f %s %T@\\n"]
        listed = self.host.must(asked, what="Asking for the tables' sizes")
        return dict(sorted(line.split(" ", 1) for line in listed.splitlines()))


def insert_numbered(
    server: Server, table: str, values: str, rows: int, inner: int, say: Say
) -> None:
    """Insert rows with the numbers from 1 on, in the order of these, on one connection.

    Parameters
    ----------
    values : of one row, in SQL: `{n}` is its number, made of `{i}` and `{j}` from 1 on by
        n = (i - 1) inner + j
    inner : how far j counts, at least 100; the rows are a multiple of it
    """
    numbers = ",".join(f"({n})" for n in range(1, inner + 1))
    server.query("CREATE TABLE innolab.digits (n INT PRIMARY KEY) ENGINE=InnoDB")
    server.query(f"INSERT INTO innolab.digits VALUES {numbers}")
    for done in range(0, rows // inner, _AT_ONCE):
        say(f"loading {done * inner:,} of {rows:,} rows")
        i = f"(i.n + {done})"
        row = values.format(n=f"(({i} - 1) * {inner} + j.n)", i=i, j="j.n")
        server.query(
            f"INSERT INTO {table} SELECT {row} FROM innolab.digits i STRAIGHT_JOIN "
            f"innolab.digits j WHERE i.n <= {min(_AT_ONCE, rows // inner - done)} ORDER BY i.n, j.n"
        )
    server.query("DROP TABLE innolab.digits")


def table_facts(server: Server, table: str, rows: int) -> dict[str, Any]:
    """Return what a recipe says of its table, named as `schema.table`, with its rows."""
    schema, name = table.split(".")
    [(data, index)] = server.query(
        "SELECT data_length, index_length FROM information_schema.tables "
        f"WHERE table_schema = '{schema}' AND table_name = '{name}'"
    )
    return {"rows": rows, "data_bytes": int(data), "index_bytes": int(index)}
