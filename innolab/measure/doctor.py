"""What a host has, what is missing, and what may disturb a measurement on it."""

import json
import shutil
from collections.abc import Iterator
from typing import Literal, NamedTuple

from innolab import studies
from innolab.base import extras, places
from innolab.base.errors import InputError
from innolab.base.provenance import own_facts
from innolab.base.units import bytes_text
from innolab.hosts import machine, network, observe
from innolab.hosts.local import HERE
from innolab.measure import quiet
from innolab.mysql import builds
from innolab.mysql.server import base_settings_file
from innolab.storage import emulated, model_disk

_ROOM_BYTES = 10 * 1024**3


class HostFinding(NamedTuple):
    """One line of the examination."""

    result: Literal["ok", "note", "missing"]
    name: str
    says: str


def examine() -> list[HostFinding]:
    """Return all findings of this host."""
    return [_itself(), *_extras(), *_builds(), *_tools(), *_room(), *_disturbers()]


def _itself() -> HostFinding:
    own = own_facts()
    commit = f", commit {own['commit'][:12]}" if own["commit"] else ""
    says = f"{own['version']}{commit}; notebooks, data and playbooks in {places.own()}"
    return HostFinding("ok", "innolab", says)


def _extras() -> Iterator[HostFinding]:
    for extra in extras.EXTRAS:
        if absent := extras.missing(extra):
            says = f"without {', '.join(absent)}. Install: pip install 'innolab[{extra}]'"
            yield HostFinding("missing" if extra == "measure" else "note", extra, says)


def _builds() -> Iterator[HostFinding]:
    cache = machine.cache_folder()
    yield HostFinding("ok", "cache", str(cache))
    records = sorted((cache / "builds").glob("*.json"))
    if not records or not base_settings_file(cache).exists():
        yield HostFinding("missing", "MySQL builds", f"none in {cache}. Run: {places.set_up()}")
    for record in records:
        body = json.loads(record.read_text())
        if why := body.get("unavailable"):
            yield HostFinding("note", record.stem, f"not available: {why}")
        else:
            yield HostFinding("ok", record.stem, f"{body['version']}, {body['origin']}")
    if records:
        for build in sorted(set(builds.recipes()) - {record.stem for record in records}):
            says = f"not installed, as it was not asked for: {places.set_up(build)}"
            yield HostFinding("note", build, says)
    try:
        user = machine.server_user()
        yield HostFinding("ok", "servers run as", user or "you, who are not root")
    except InputError as error:
        yield HostFinding("missing", "servers' user", str(error))
    if not shutil.which("setpriv"):
        yield HostFinding("missing", "setpriv", "it comes with util-linux; install that package")


def _tools() -> Iterator[HostFinding]:
    for name in sorted(
        {tool for study in studies.names() for tool in studies.find(study).demands.tools}
    ):
        try:
            yield HostFinding("ok", name, machine.tool(name))
        except InputError as error:
            yield HostFinding("note", name, f"{error}; some studies need it")
    limits = emulated.why_impossible()
    for name, why, otherwise in (
        ("emulated devices", limits, "; such studies use the host's"),
        ("devices with service times", limits or model_disk.why_impossible(), ""),
        ("networks of nodes", network.why_impossible(), "; some studies need them"),
    ):
        if why:
            yield HostFinding("note", name, f"not here: {why}{otherwise}")
        else:
            yield HostFinding("ok", name, "can be made")
    if (machine.cache_folder() / "lab" / "lab.json").exists():
        yield HostFinding("ok", "lab", "raised")
    else:
        how = "in a clone of innolab: make lab" if places.is_installed() else "make lab"
        yield HostFinding("note", "lab", f"not raised; studies of arrays need it or a host: {how}")


def _room() -> Iterator[HostFinding]:
    memory = observe.memory_bytes(HERE)
    yield HostFinding("ok", "memory", f"{bytes_text(memory['available'])} available")
    free = machine.free_disk_bytes(machine.cache_folder())
    result: Literal["ok", "note"] = "ok" if free > _ROOM_BYTES else "note"
    yield HostFinding(result, "disk", f"{bytes_text(free)} free for datasets")


def _disturbers() -> Iterator[HostFinding]:
    # Before the first set-up there is no cache folder yet.
    facts = observe.facts(HERE, machine.there(HERE.folder))
    if facts["virtual"]:
        yield HostFinding("note", "virtual machine", "neighbours may take CPU time; runs record it")
    if found := quiet.noise():
        says = "runs that are so disturbed are not valid" if found.is_too_much else "runs say so"
        yield HostFinding("note", "other work now", f"{found.says}; {says}")
    else:
        yield HostFinding("ok", "other work now", "none that would disturb a measurement")
    if facts["swap_bytes"]:
        yield HostFinding("note", "swap", "on; a run that swaps is invalid")
    if facts["cpu_governor"] not in (None, "performance"):
        yield HostFinding(
            "note", "CPU governor", f"{facts['cpu_governor']}; 'performance' is steadier"
        )
    if facts["transparent_huge_pages"] == "always":
        yield HostFinding(
            "note", "transparent huge pages", "always; servers may stall on compaction"
        )
