"""Who made a server, and which of MySQL's variables MariaDB has otherwise."""

import re
from collections.abc import Mapping
from typing import TypeVar

# Until then its InnoDB was MySQL's.
_OTHERWISE_SINCE = (10, 5)
# MySQL's variables that MariaDB has not, or means otherwise, each with what it has instead.
_INSTEAD = {
    "innodb_buffer_pool_instances": "its buffer pool has been one since 10.5",
    "innodb_log_file_size": "its redo log is one file, not two of this size",
    "innodb_monitor_enable": "its counters that are off by default are others",
}
# Its variables that are set to the value of one of MySQL's, by the names that base settings have.
_AS_LARGE = {"loose_innodb_log_file_size": "loose_innodb_redo_log_capacity"}

Value = TypeVar("Value", str, int, str | int)


def is_mariadb(version: str) -> bool:
    """Return whether a server that says it is of this version is MariaDB.

    >>> is_mariadb("10.11.18-MariaDB"), is_mariadb("9.7.4")
    (True, False)
    """
    return "mariadb" in version.lower()


def settings(version: str, asked: Mapping[str, Value]) -> dict[str, Value]:
    """Return the variables that have a server do what is asked for by MySQL's names.

    >>> asked = {"loose_innodb_log_file_size": 2**23, "loose_innodb_redo_log_capacity": 2**24}
    >>> settings("10.11.18-MariaDB", asked)["loose_innodb_log_file_size"] == 2**24
    True
    """
    if not _is_otherwise(version):
        return dict(asked)
    left = {n: value for n, value in asked.items() if n.removeprefix("loose_") not in _INSTEAD}
    return left | {name: asked[same] for name, same in _AS_LARGE.items() if same in asked}


def instead(version: str, variable: str) -> str | None:
    """Return what a server has instead of one of MySQL's variables, or None if it may have it."""
    return _INSTEAD.get(variable) if _is_otherwise(version) else None


def _is_otherwise(version: str) -> bool:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return is_mariadb(version) and numbers >= _OTHERWISE_SINCE
