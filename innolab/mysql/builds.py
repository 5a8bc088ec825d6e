"""Installed MySQL binaries: those that the playbook installed, and any mysqld given by path."""

import functools
import hashlib
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from innolab.base import parsing, places
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine
from innolab.hosts.base import Host
from innolab.hosts.local import HERE
from innolab.mysql import makers

OWN_ORIGIN = "a path given by the user"
# What stands in a server's place where a study asks a device alone.
TOOLS = ("fio",)
_ROLE = places.own("playbooks", "collections", "ansible_collections", "innolab", "hosts", "roles")
_RECIPES = _ROLE / "mysql" / "defaults" / "main.yml"


@dataclass(frozen=True)
class Build:
    """One set of MySQL binaries.

    Attributes
    ----------
    id : the name in plans and reports, such as "mysql-9.7"
    version : what mysqld itself says
    mysqld : the command that starts it, with its own loader where it needs one
    env : variables that it needs in its environment
    share : folder of its error messages, or None for its own default
    init : "initialize", or "system-tables" for servers that cannot initialize: MySQL before 5.7.6
        and MariaDB
    origin : where it came from, for the report
    sha256 : digest of the mysqld binary
    plugins : folder of its plugins, or None for its own default
    """

    id: str
    version: str
    mysqld: tuple[str, ...]
    env: dict[str, str]
    share: str | None
    init: str
    origin: str
    sha256: str
    plugins: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return what a report says of the build. No path: it says nothing to a reader."""
        return {
            "id": self.id,
            "version": self.version,
            "origin": self.origin,
            "sha256": self.sha256,
            "debug": self.id not in TOOLS and is_debug(self),
        }


@dataclass(frozen=True)
class Unavailable:
    """A build that is not available on this host, and why."""

    id: str
    reason: str


def find(cache: Path, wanted: str) -> Build | Unavailable:
    """Return the build of an id or of the path of a mysqld.

    Raises
    ------
    InputError
        If there is no such build, or what is at the path is no MySQL server.
    """
    if "/" in wanted:
        return _from_path(Path(wanted))
    if wanted in TOOLS:
        return _tool(wanted)
    record = cache / "builds" / f"{wanted}.json"
    known = sorted(p.stem for p in record.parent.glob("*.json"))
    if not known:
        raise InputError(
            f"There are no MySQL builds in {record.parent} yet. Run: {places.set_up()}"
        )
    if wanted not in known:
        way = "A mysqld of your own is named by its path, such as /usr/sbin/mysqld."
        if wanted in recipes():
            way = f"To install it, run: {places.set_up(wanted)}"
        raise InputError(f"There is no build '{wanted}'. This host has: {', '.join(known)}. {way}")
    body = json.loads(record.read_text())
    if reason := body.get("unavailable"):
        return Unavailable(wanted, reason)
    return Build(**{**body, "mysqld": tuple(body["mysqld"])})


@functools.cache
def recipes() -> list[str]:
    """Return the ids of all builds that the playbook can install, some only if asked for."""
    defaults = parsing.yaml_value(parsing.yaml_node(_RECIPES.read_text()))
    return sorted(defaults["mysql_defaults"]["builds"])


def _tool(name: str) -> Build:
    starter = Path(machine.tool(name))
    says = _ask((str(starter),), {}, "--version").strip()
    digest = hashlib.sha256(starter.read_bytes()).hexdigest()
    return Build(name, says.removeprefix(f"{name}-"), (str(starter),), {}, None, "", name, digest)


def _from_path(path: Path) -> Build:
    if not (path.is_file() and os.access(path, os.X_OK)):
        raise InputError(f"{path} is not an executable file. Give the path of a mysqld.")
    path = path.resolve()
    version = version_of((str(path),), {})
    return Build(
        id=re.sub(r"[^0-9A-Za-z._+~-]+", "-", f"{path.name}-{version}").lstrip("-"),
        version=version,
        mysqld=(str(path),),
        env={},
        share=None,
        init="system-tables" if _cannot_initialize(version) else "initialize",
        origin=OWN_ORIGIN,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def moved(build: Build, cache: Path, folder: Path) -> Build:
    """Return a build as it is on a host whose folder of builds is another.

    Raises
    ------
    InputError
        If it is not in the cache, from which hosts get theirs.
    """
    # A cache may be made of links to another's parts.
    ours = str((cache / "builds").resolve())
    if not build.mysqld[-1].startswith(f"{ours}/"):
        raise InputError(
            f"{build.id} was given by a path of this machine, and other hosts get only the builds "
            "of its cache. Name one of those, such as mysql-9.7."
        )

    def there(text: str) -> str:
        return text.replace(ours, str(folder / "builds"))

    return replace(
        build,
        mysqld=tuple(there(word) for word in build.mysqld),
        env={name: there(value) for name, value in build.env.items()},
        share=build.share and there(build.share),
        plugins=build.plugins and there(build.plugins),
    )


def require_same(build: Build, host: Host, folder: Path) -> None:
    """Prove that a host has the very server of this machine in its folder of builds.

    Raises
    ------
    InputError
        If the build is not in the cache, from which hosts get theirs.
    InnolabError
        If the server's digest is another there.
    """
    there = moved(build, machine.cache_folder(), folder).mysqld[-1]
    found = host.must(["sha256sum", there], what=f"Reading {build.id}").split()[0]
    if found != build.sha256:
        raise InnolabError(
            f"{build.id} on {host.name} is not the one of this machine. Remove "
            f"{folder / 'builds' / build.id} there and run the same again."
        )


def version_of(mysqld: tuple[str, ...], env: dict[str, str]) -> str:
    """Return the version that a mysqld says it is, such as "9.7.4".

    Raises
    ------
    InputError
        If it does not answer as a MySQL server does.
    """
    says = _ask(mysqld, env, "--no-defaults", "--version")
    if not (found := re.search(r"Ver (\d+\.\d+\.\d+[0-9A-Za-z.+~:_-]*)", says)):
        raise InputError(
            f"{mysqld[-1]} does not answer --version as a MySQL server does; it said: "
            f"{says.strip()[:200] or 'nothing'}. Give the path of a mysqld."
        )
    return found[1]


def _cannot_initialize(version: str) -> bool:
    return makers.is_mariadb(version) or _number(version) < (5, 7, 6)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(x) for x in re.findall(r"\d+", version)[:3])


@functools.cache
def _help(mysqld: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> str:
    return _ask(mysqld, dict(env), "--no-defaults", "--verbose", "--help")


def help_text(build: Build) -> str:
    """Return the build's own list of options and their defaults."""
    return _help(build.mysqld, tuple(sorted(build.env.items())))


def plugin_folder(build: Build) -> Path | None:
    """Return the folder of a build's plugins: the one recorded, else its own default."""
    return Path(build.plugins) if build.plugins else _default_path(build, "plugin-dir")


def share_folder(build: Build) -> Path | None:
    """Return the folder of a build's messages and scripts: the one recorded, else its default."""
    charsets = _default_path(build, "character-sets-dir")
    return Path(build.share) if build.share else charsets and charsets.parent


def _default_path(build: Build, variable: str) -> Path | None:
    found = re.search(rf"^{variable} +(\S+)$", help_text(build), re.MULTILINE)
    return Path(found[1]) if found else None


def is_debug(build: Build) -> bool:
    """Return whether the build was compiled for debugging.

    The version banner may not say so; an option `--debug` in the server's own help does. Prevents
    the result that seed S3 had to retract: scans 9 to 54 times too slow, in the wrong order.
    MariaDB has the option in every build, and says in which it does nothing.
    """
    option = r"^\s*(-#, )?--debug(\[?=|\s)(?!.*Disabled in this build)"
    return re.search(option, help_text(build), re.MULTILINE) is not None


def lacks(build: Build, variables: frozenset[str]) -> list[str]:
    """Return those of the variables that the server does not have, sorted."""
    says = help_text(build).replace("_", "-")
    return sorted(
        name
        for name in variables
        if not re.search(rf"^\s*--{name.replace('_', '-')}(\[?=|\s)", says, re.MULTILINE)
    )


def _ask(mysqld: tuple[str, ...], env: dict[str, str], *options: str) -> str:
    done = HERE.run([*HERE.unprivileged(), *mysqld, *options], env=env, limit_s=60)
    return done.stdout + done.stderr
