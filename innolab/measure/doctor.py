"""What a host has, what is missing, and what may disturb a measurement on it."""

import json
import shutil
from collections.abc import Iterator
from typing import Literal, NamedTuple

from innolab import studies
from innolab.base import places
from innolab.base.errors import InputError
from innolab.base.provenance import own_facts
from innolab.base.units import bytes_text
from innolab.hosts import machine, network, observe, tools
from innolab.hosts.local import HERE
from innolab.mysql.my_cnf import base_settings_file
from innolab.storage import emulated, model_disk

_ROOM_BYTES = 10 * 1024**3


class Finding(NamedTuple):
    """One line of the examination."""

    result: Literal["ok", "note", "missing"]
    name: str
    says: str


def examine() -> list[Finding]:
    """Return all findings of this host."""
    return [_itself(), *_builds(), *_tools(), *_room(), *_disturbers()]


def _itself() -> Finding:
    own = own_facts()
    commit = f", commit {own['commit'][:12]}" if own["commit"] else ""
    says = f"{own['version']}{commit}; notebooks, data and playbooks in {places.own()}"
    return Finding("ok", "innolab", says)


def _builds() -> Iterator[Finding]:
    cache = machine.cache_folder()
    yield Finding("ok", "cache", str(cache))
    records = sorted((cache / "builds").glob("*.json"))
    if not records or not base_settings_file(cache).exists():
        yield Finding("missing", "MySQL builds", f"none in {cache}. Run: {places.set_up()}")
    for record in records:
        body = json.loads(record.read_text())
        if why := body.get("unavailable"):
            yield Finding("note", record.stem, f"not available: {why}")
        else:
            yield Finding("ok", record.stem, f"{body['version']}, {body['origin']}")
    try:
        user = machine.server_user()
        yield Finding("ok", "servers run as", user or "you, who are not root")
    except InputError as error:
        yield Finding("missing", "servers' user", str(error))
    if not shutil.which("setpriv"):
        yield Finding("missing", "setpriv", "it comes with util-linux; install that package")


def _tools() -> Iterator[Finding]:
    for name in sorted({tool for study in studies.names() for tool in studies.find(study).tools}):
        try:
            yield Finding("ok", name, tools.path(name))
        except InputError as error:
            yield Finding("note", name, f"{error}; some studies need it")
    if why := emulated.why_impossible():
        yield Finding("note", "emulated devices", f"not here: {why}; such studies use the host's")
    else:
        yield Finding("ok", "emulated devices", "can be made")
    if why := emulated.why_impossible() or model_disk.why_impossible():
        yield Finding("note", "devices with service times", f"not here: {why}")
    else:
        yield Finding("ok", "devices with service times", "can be made")
    if why := network.why_impossible():
        yield Finding("note", "networks of nodes", f"not here: {why}; some studies need them")
    else:
        yield Finding("ok", "networks of nodes", "can be made")
    if (machine.cache_folder() / "lab" / "lab.json").exists():
        yield Finding("ok", "lab", "raised")
    else:
        how = "in a clone of innolab: make lab" if places.is_installed() else "make lab"
        yield Finding("note", "lab", f"not raised; studies of arrays need it or a host: {how}")


def _room() -> Iterator[Finding]:
    memory = observe.memory_bytes(HERE)
    yield Finding("ok", "memory", f"{bytes_text(memory['available'])} available")
    free = machine.free_disk_bytes(machine.cache_folder())
    result: Literal["ok", "note"] = "ok" if free > _ROOM_BYTES else "note"
    yield Finding(result, "disk", f"{bytes_text(free)} free for datasets")


def _disturbers() -> Iterator[Finding]:
    # Before the first set-up there is no cache folder yet.
    facts = observe.facts(HERE, machine.there(HERE.folder))
    if facts["virtual"]:
        yield Finding("note", "virtual machine", "neighbours may take CPU time; runs record it")
    if facts["swap_bytes"]:
        yield Finding("note", "swap", "on; a run that swaps is invalid")
    if facts["cpu_governor"] not in (None, "performance"):
        yield Finding("note", "CPU governor", f"{facts['cpu_governor']}; 'performance' is steadier")
    if facts["transparent_huge_pages"] == "always":
        yield Finding("note", "transparent huge pages", "always; servers may stall on compaction")
