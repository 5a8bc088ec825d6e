"""Record what was asked of this host beside what is so, or say where the two differ."""

import json
import platform
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage_barriers import observed
from ..module_utils.storage_compare import mismatches
from ..module_utils.storage_files import record
from ..module_utils.storage_geometry import StorageError, geometry
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
from ..module_utils.storage_live import arrays, chosen
from ..module_utils.storage_plan import link, recorded

DOCUMENTATION = r"""
module: host_record
short_description: Record what was asked of this host beside what is so
description:
  - Reads arrays, mounts, barriers and the kernel from the live system. C(write) writes them with
    the request to I(path); C(verify) only reads. Both fail where the two differ, and name every
    difference. Needs root.
author: innolab
options:
  action: {description: What to do., type: str, choices: [write, verify], default: write}
  path: {description: File of the record., type: path, default: /etc/innolab/host.json}
  storage: {description: What was asked of the role storage., type: dict, required: true}
  filesystem: {description: What was asked of the role filesystem., type: dict, required: true}
  kernel: {description: What was asked of the role kernel., type: dict, required: true}
"""

EXAMPLES = r"""
- name: Compare what was asked with what is so
  innolab.hosts.host_record:
    action: verify
    storage: "{{ storage }}"
    filesystem: "{{ filesystem }}"
    kernel: "{{ kernel }}"
"""

RETURN = r"""
record: {description: What was asked and what is so., type: dict, returned: on success}
"""

_FILESYSTEM = ("data", "log", "barriers", "cache_is_nonvolatile", "mount_options", "owner")


class _Seen:
    """A place of the record, and what runs in it."""

    def __init__(self, entry: dict[str, Any], live: dict[str, dict[str, Any]]) -> None:
        self.entry, self.place = entry, recorded(entry)
        self.node = Path("/dev", link(entry)).resolve().name
        self.live = live.get(entry["md_uuid"], {})
        self.ids = {Path(disk.path).resolve().name: disk.id for disk in self.place.disks}
        self.is_there = (SYS_BLOCK / self.node).exists()

    def array(self) -> dict[str, Any]:
        """Return what is so of the array; of a disk as it is, little can be said."""
        place, live = self.place, self.live
        facts = {
            "name": place.name,
            "device": place.device,
            "level": live.get("level", place.level),
            "members": [self.ids.get(x, x) for x in live.get("members", self.ids)],
            "size_bytes": int(read(SYS_BLOCK / self.node / "size") or 0) * 512,
            "uuid": self.entry["md_uuid"],
            "assume_clean": self.entry.get("assume_clean"),
            "journal": place.journal.id if place.journal and live.get("has_journal") else None,
        }
        keys = ("chunk_kib", "raid10_layout", "bitmap", "size_mib", "sync_action", "degraded")
        return facts | {key: live.get(key) for key in keys}

    def mounts(self) -> list[dict[str, Any]]:
        """Return its mounts."""
        number, device = number_of(self.node), self.place.device
        return [
            {
                "path": mount.point,
                "source": device,
                "fstype": mount.kind,
                "options": ",".join(mount.options),
                "xfs_info": self._xfs_info(mount) if mount.kind == "xfs" else None,
            }
            for mount in mounts()
            if mount.number == number
        ]

    def _xfs_info(self, mount: Mount) -> str:
        """Return the geometry that mkfs decided on by the device, whatever was asked."""
        # An array's number may be another after a reboot.
        return run(["xfs_info", mount.point]).replace(f"/dev/{self.node} ", f"{self.place.device} ")

    def barriers(self, options: str) -> dict[str, Any]:
        """Return what decides whether caches are flushed."""
        below = [] if self.entry["md_uuid"] is None else list(self.ids)
        return {
            "before": self.entry.get("write_cache_before"),
            "write_cache": read(SYS_BLOCK / self.node / "queue/write_cache"),
            "below": [read(SYS_BLOCK / name / "queue/write_cache") for name in below],
            "options": options.split(","),
        }

    def queues(self) -> dict[str, dict[str, Any]]:
        """Return the queues of the array and its disks by their names."""
        return {
            name: _queue(SYS_BLOCK / node)
            for node, name in {self.node: self.place.device, **self.ids}.items()
        }


def _queue(entry: Path) -> dict[str, Any]:
    scheduler = read(entry / "queue/scheduler")
    stripes = read(entry / "md/stripe_cache_size")
    return {
        "scheduler": None if (entry / "md").exists() else chosen(scheduler),
        "read_ahead_kib": int(read(entry / "queue/read_ahead_kb") or 0),
        "stripe_cache_pages": int(stripes) if stripes else None,
        "write_cache": read(entry / "queue/write_cache"),
        "rotational": read(entry / "queue/rotational") == "1",
    }


def _observed() -> dict[str, Any]:
    """Return what is so on this host."""
    live = arrays()
    seen = [_Seen(entry, live) for entry in record().get("places", [])]
    seen = [x for x in seen if x.is_there]
    mounted = [mount for x in seen for mount in x.mounts()]
    options = {mount["source"]: mount["options"] for mount in mounted}
    of_barriers = [x.barriers(options.get(x.place.device, "")) for x in seen]
    governors = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    return {
        "arrays": [x.array() for x in seen],
        "mounts": mounted,
        "barriers": {
            **observed(of_barriers),
            "write_cache": of_barriers[0]["write_cache"] if of_barriers else None,
            "write_cache_before": of_barriers[0]["before"] if of_barriers else None,
        },
        "kernel": {
            "release": platform.release(),
            "swappiness": int(read(Path("/proc/sys/vm/swappiness")) or -1),
            "transparent_huge_pages": chosen(
                read(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
            ),
            "governors": sorted({read(path) or "" for path in governors}),
            "queues": {name: queue for x in seen for name, queue in x.queues().items()},
        },
    }


def _record(given: dict[str, Any]) -> dict[str, Any]:
    """Return what was asked beside what is so."""
    seen = _observed()
    asked = given["filesystem"]
    seen["barriers"] = {"requested": asked["barriers"], **seen["barriers"]}
    return {
        "requested": {
            "storage": geometry(given["storage"]),
            "filesystem": {key: asked[key] for key in _FILESYSTEM},
            "kernel": given["kernel"],
        },
        "observed": seen,
    }


def _of_another_request(text: str | None, requested: dict[str, Any], path: Path) -> list[str]:
    """Return how the record on the host was made of another request than today's."""
    try:
        old = json.loads(text or "")["requested"]
    except (ValueError, KeyError):
        return [f"{path} holds no record; run site.yml"]
    return [
        f"{path} was written when {part} was {old.get(part)}; run site.yml"
        for part, asked in requested.items()
        if old.get(part) != asked
    ]


def _do(module: AnsibleModule) -> dict[str, Any]:
    """Write or verify the record and return the module's result."""
    given, path = module.params, Path(module.params["path"])
    found = _record(given)
    text, old = json.dumps(found, indent=1) + "\n", path.read_text() if path.exists() else None
    wrong = mismatches(found["requested"], found["observed"])
    if given["action"] == "verify":
        wrong += _of_another_request(old, found["requested"], path)
        text = old or ""
    elif not module.check_mode and text != old:
        replace(path, text)
    if wrong and not module.check_mode:
        listed = "\n".join(f"  - {x}" for x in wrong)
        raise StorageError(f"what was requested is not what is observed:\n{listed}")
    changed = given["action"] == "write" and text != old
    return {"changed": changed, "record": found, "diff": {"before": old or "", "after": text}}


def main() -> None:
    """Run the module."""
    options = {
        "action": {"type": "str", "choices": ["write", "verify"], "default": "write"},
        "path": {"type": "path", "default": "/etc/innolab/host.json"},
        "storage": {"type": "dict", "required": True},
        "filesystem": {"type": "dict", "required": True},
        "kernel": {"type": "dict", "required": True},
    }
    module = AnsibleModule(options, supports_check_mode=True)
    try:
        prepare()
        result = _do(module)
    except (StorageError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
