"""Make XFS on the arrays that md_storage made, mount it, and keep or stop its cache flushes."""

import os
import platform
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage_barriers import WRITE_THROUGH, mount_options, rules, way
from ..module_utils.storage_disks import look
from ..module_utils.storage_files import (
    BARRIER_RULES,
    FSTAB,
    block,
    record,
    require_marks,
    set_block,
    write_record,
)
from ..module_utils.storage_geometry import StorageError
from ..module_utils.storage_host import (
    SYS_BLOCK,
    Mount,
    mounts,
    number_of,
    prepare,
    read,
    replace,
    run,
)
from ..module_utils.storage_live import arrays
from ..module_utils.storage_plan import link, recorded, strange
from ..module_utils.storage_refusals import Ours, refusals

DOCUMENTATION = r"""
module: xfs_mount
short_description: Make XFS on the arrays that md_storage made, and mount it
description:
  - Makes a file system only on a blank device that C(/etc/innolab/storage.json) says is ours, with
    the UUID that is written there. Mounts it by this UUID, also at boot, and compares the options
    in effect with those asked for. Needs root.
author: innolab
options:
  data: {description: Mount point of the data., type: path, required: true}
  log: {description: Mount point of the logs where they have an array., type: path, required: true}
  barriers: {description: Whether the kernel flushes caches., type: bool, default: true}
  cache_is_nonvolatile:
    description: The owner's word that caches keep their content without power.
    type: bool
    default: false
  mount_options: {description: Options besides., type: list, elements: str, default: [noatime]}
  owner: {description: Owner of the mounted folders where it exists., type: str, default: innolab}
  planned:
    description: Whether other arrays are to come first, which a check cannot look at.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Mount without cache flushes, on a controller with a battery
  innolab.hosts.xfs_mount:
    {data: /srv/innolab/data, log: /srv/innolab/log, barriers: false, cache_is_nonvolatile: true}
"""

RETURN = r"""
changes: {description: What changed or would., type: list, elements: str, returned: always}
"""

# A host that came up without its data can be repaired over ssh; one waiting at its console cannot.
# And ssh comes up only after the attempt, so that who logs in does not see the empty folder.
_BOOT = ["nofail", "x-systemd.device-timeout=60s", "x-systemd.before=ssh.service"]
_RELEASE = platform.release()


class _Changes:
    """What is done, in words; in a check it is only said."""

    def __init__(self, is_check: bool) -> None:
        self.is_check, self.said = is_check, []

    def make(self, says: str, do: Callable[[], Any]) -> None:
        self.said.append(says)
        if not self.is_check:
            do()


class _Place:
    """A place of the record with its device, mount point and options."""

    def __init__(self, entry: dict[str, Any], given: dict[str, Any]) -> None:
        self.entry, self.place = entry, recorded(entry)
        self.uuid, self.point = entry["xfs_uuid"], given[entry["name"]]
        self.options = mount_options(given["mount_options"], given["barriers"], _RELEASE)
        self.node, self.has_file_system = self._look()
        self.cache = SYS_BLOCK / Path(self.node).name / "queue/write_cache"

    def _look(self) -> tuple[str, bool]:
        """Return the device and whether it holds our file system; raise where it is not ours."""
        xfs = frozenset([self.uuid])
        if self.place.level == "single":
            [disk] = self.place.members
            facts = look([disk])
            if wrong := refusals([disk], facts, Ours(xfs_uuids=xfs)):
                raise StorageError("; ".join(wrong))
            return facts[disk.id].node, bool(facts[disk.id].signatures)
        live = arrays().get(self.entry["md_uuid"])
        if live is None:
            raise StorageError(f"{self.place.device} does not run; run the role storage first")
        if wrong := strange(live, xfs):
            raise StorageError("; ".join(f"{self.place.device} {what}" for what in wrong))
        return f"/dev/{live['node']}", bool(live["signatures"])

    def fstab(self) -> str:
        """Return the line that mounts the place."""
        options = ",".join(self.options + _BOOT)
        return f"UUID={self.uuid} {self.point} xfs {options} 0 0"

    def make_file_system(self) -> None:
        """Make XFS. Without -f, so that mkfs too refuses what is not blank."""
        # Of stripes mkfs asks md. A discard would be a load of its own on a slow disk.
        words = ["mkfs.xfs", "-q", "-K", "-m", f"uuid={self.uuid}"]
        if self.place.level == "single" and self.place.size_mib:
            words += ["-d", f"size={self.place.size_mib}m"]
        run([*words, self.node])

    def mounted(self) -> Mount | None:
        """Return what is mounted at the point."""
        return next((x for x in reversed(mounts()) if x.point == self.point), None)

    def mount(self) -> None:
        """Mount by fstab, as the next boot will."""
        point = Path(self.point)
        point.mkdir(parents=True, exist_ok=True)
        if hidden := next(point.iterdir(), None):
            raise StorageError(f"a mount at {point} would hide {hidden}; move it away")
        run(["mount", self.point])

    def mismatches(self) -> list[str]:
        """Return in what the live mount differs from what is asked."""
        live = self.mounted()
        if live is None:
            return [f"nothing is mounted at {self.point}"]
        if live.number != number_of(Path(self.node).name):
            raise StorageError(
                f"{live.source} is mounted at {self.point}, not {self.node}; move it"
            )
        missing = [x for x in self.options if x not in (*live.options, "defaults")]
        return [f"{self.point} is mounted without {x}" for x in missing]


def _file_systems(places: list[_Place], changes: _Changes) -> None:
    for place in places:
        if not place.has_file_system:
            changes.make(f"make XFS {place.uuid} on {place.place.device}", place.make_file_system)
    lines = [place.fstab() for place in places]
    before = read(FSTAB) or ""
    if foreign := _foreign(block(before, []), places):
        raise StorageError(f"{FSTAB} has a line for {foreign} that is not ours; remove it")
    if block(before, lines) != before + "\n":
        changes.make(f"write to {FSTAB}: {'; '.join(lines)}", lambda: _write_fstab(lines))
    for place in places:
        if wrong := place.mismatches():
            if place.mounted():
                changes.make(f"unmount {place.point}", lambda at=place: run(["umount", at.point]))
            changes.make(f"mount {place.point}: {'; '.join(wrong)}", place.mount)


def _foreign(text: str, places: list[_Place]) -> str:
    points = {place.point for place in places}
    lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    return next((words[1] for words in lines if len(words) > 1 and words[1] in points), "")


def _write_fstab(lines: list[str]) -> None:
    set_block(FSTAB, lines)
    # Else systemd may unmount at once what its units, made of the old lines, know nothing of.
    if Path("/run/systemd/system").is_dir():
        run(["systemctl", "daemon-reload"])


def _owner(places: list[_Place], owner: str, changes: _Changes) -> None:
    try:
        user = pwd.getpwnam(owner)
    except KeyError:
        return
    for place in places:
        found = Path(place.point).stat() if place.mounted() else None
        if found is None or (found.st_uid, found.st_gid) != (user.pw_uid, user.pw_gid):
            changes.make(
                f"give {place.point} to {owner}",
                lambda at=place.point: os.chown(at, user.pw_uid, user.pw_gid),
            )


def _barriers(known: dict[str, Any], places: list[_Place], wanted: bool, changes: _Changes) -> None:
    """Stop cache flushes in a way that lasts over a reboot, or start them again."""
    stops = not wanted and way(_RELEASE) == WRITE_THROUGH
    found = {place: read(place.cache) for place in places}
    for place, live in found.items():
        if stops and live is None:
            raise StorageError(f"the kernel has no {place.cache}, so its flushes cannot be stopped")
        if stops and "write_cache_before" not in place.entry:
            # Written first: a value that is changed but not recorded could not be restored.
            place.entry["write_cache_before"] = live
            changes.make(f"record that {place.cache} was '{live}'", lambda: write_record(known))
    _barrier_rules([link(place.entry) for place in places] if stops else [], changes)
    for place, live in found.items():
        value = WRITE_THROUGH if stops else place.entry.get("write_cache_before", live)
        if live != value:
            says = f"set {place.cache} from '{live}' to '{value}'"
            changes.make(says, lambda at=place.cache, to=value: at.write_text(to))
        if not stops and place.entry.pop("write_cache_before", None):
            changes.make(f"record that {place.cache} is as it was", lambda: write_record(known))


def _barrier_rules(links: list[str], changes: _Changes) -> None:
    values = {"queue/write_cache": WRITE_THROUGH}
    text = rules(links, values, "No cache flushes: the owner says that caches keep their content.")
    if (read(BARRIER_RULES) or "") != text.rstrip("\n"):
        says = f"write {BARRIER_RULES}" if text else f"remove {BARRIER_RULES}"
        changes.make(says, lambda: _write_rules(text))


def _write_rules(text: str) -> None:
    replace(BARRIER_RULES, text or None)
    # It would apply the old ones for some seconds more.
    run(["udevadm", "control", "--reload"])


def _ensure(module: AnsibleModule) -> dict[str, Any]:
    """Do what is asked, or only find out what would change, and return the module's result."""
    given = module.params
    if not given["barriers"] and not given["cache_is_nonvolatile"]:
        raise StorageError(
            "barriers: false loses data at a power cut unless every cache keeps its content "
            "without power; nothing was changed. Where it does, say cache_is_nonvolatile: true"
        )
    if module.check_mode and given["planned"]:
        return _result(["make XFS on the planned arrays and mount it"])
    require_marks()
    known, changes = record(), _Changes(module.check_mode)
    if not known.get("is_complete") or not known.get("places"):
        raise StorageError("this host has no storage of ours; run the role storage first")
    places = [_Place(entry, given) for entry in known["places"]]
    _file_systems(places, changes)
    _owner(places, given["owner"], changes)
    _barriers(known, places, given["barriers"], changes)
    wrong = [] if module.check_mode else [x for place in places for x in place.mismatches()]
    if wrong:
        raise StorageError(f"after mounting {'; '.join(wrong)}; does this kernel know the option?")
    return _result(changes.said)


def _result(said: list[str]) -> dict[str, Any]:
    after = "".join(f"{line}\n" for line in said)
    return {"changed": bool(said), "changes": said, "diff": {"before": "", "after": after}}


def main() -> None:
    """Run the module."""
    options = {
        "data": {"type": "path", "required": True},
        "log": {"type": "path", "required": True},
        "barriers": {"type": "bool", "default": True},
        "cache_is_nonvolatile": {"type": "bool", "default": False},
        "mount_options": {"type": "list", "elements": "str", "default": ["noatime"]},
        "owner": {"type": "str", "default": "innolab"},
        "planned": {"type": "bool", "default": False},
    }
    module = AnsibleModule(options, supports_check_mode=True)
    try:
        prepare()
        result = _ensure(module)
    except (StorageError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
