"""Set the kernel of a measured host, now and at every boot, and read back that it is so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage_barriers import rules
from ..module_utils.storage_files import KERNEL_RULES, record
from ..module_utils.storage_geometry import StorageError
from ..module_utils.storage_host import SYS_BLOCK, prepare, read, replace, run
from ..module_utils.storage_live import chosen
from ..module_utils.storage_plan import link, recorded

DOCUMENTATION = r"""
module: host_kernel
short_description: Set the kernel of a measured host, now and at every boot
description:
  - Sets the values given, writes them down for the next boot (C(sysctl.d), C(tmpfiles.d), rules of
    udev) and reads them back. What is not given stays as it is. Queues are those of the disks and
    arrays in C(/etc/innolab/storage.json). Needs root.
author: innolab
options:
  swappiness: {description: Tendency to swap, 0 to 200., type: int}
  transparent_huge_pages: {description: When., type: str, choices: [always, madvise, never]}
  governor: {description: Of the CPUs' frequency, where they have one., type: str}
  scheduler: {description: I/O scheduler of the disks., type: str}
  read_ahead_kib: {description: Read-ahead of disks and arrays., type: int}
  stripe_cache_pages: {description: Stripe cache of raid5, pages a member., type: int}
  planned:
    description: Whether other arrays are to come first, which a check cannot look at.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Neither swap nor read ahead
  innolab.hosts.host_kernel: {swappiness: 1, read_ahead_kib: 0}
"""

RETURN = r"""
changes: {description: What changed or would., type: list, elements: str, returned: always}
"""

_SYSCTL = Path("/etc/sysctl.d/90-innolab.conf")
_TMPFILES = Path("/etc/tmpfiles.d/innolab.conf")
_SWAPPINESS = Path("/proc/sys/vm/swappiness")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_GOVERNORS = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
_HEAD = "# Written by innolab.\n"


class _Value(NamedTuple):
    """A file of the kernel and the value it should have."""

    path: Path
    wanted: str

    @property
    def live(self) -> str | None:
        return chosen(read(self.path))


def _queues(given: dict[str, Any]) -> tuple[dict[str, dict[str, str]], list[_Value]]:
    """Return attributes by link below /dev, for udev, and the same as files of today's devices."""
    by_link: dict[str, dict[str, str]] = {}
    for entry in record().get("places", []):
        place = recorded(entry)
        disks = [f"disk/by-id/{disk.id}" for disk in place.disks]
        for name in dict.fromkeys([*disks, link(entry)]):
            wanted = {"queue/read_ahead_kb": given["read_ahead_kib"]}
            # An array has no scheduler; its members have.
            wanted["queue/scheduler"] = given["scheduler"] if name in disks else None
            is_raid5 = place.level == "raid5" and name not in disks
            wanted["md/stripe_cache_size"] = given["stripe_cache_pages"] if is_raid5 else None
            by_link[name] = {key: str(x) for key, x in wanted.items() if x is not None}
    return by_link, [
        _Value(SYS_BLOCK / Path("/dev", name).resolve().name / key, value)
        for name, values in by_link.items()
        for key, value in values.items()
    ]


def _values(given: dict[str, Any]) -> Iterator[_Value]:
    """Give the values of the host as a whole."""
    if given["swappiness"] is not None:
        yield _Value(_SWAPPINESS, str(given["swappiness"]))
    if given["transparent_huge_pages"] and _HUGE_PAGES.exists():
        yield _Value(_HUGE_PAGES, given["transparent_huge_pages"])
    if given["governor"]:
        for path in sorted(Path("/").glob(_GOVERNORS.lstrip("/"))):
            yield _Value(path, given["governor"])


def _files(given: dict[str, Any], by_link: dict[str, dict[str, str]]) -> dict[Path, str | None]:
    """Return what has to be written for the next boot; None where nothing has."""
    swappiness, huge_pages = given["swappiness"], given["transparent_huge_pages"]
    boot = [("w", _HUGE_PAGES, huge_pages), ("w", _GOVERNORS, given["governor"])]
    lines = [f"{kind} {path} - - - - {value}\n" for kind, path, value in boot if value]
    of_udev = [rules([name], values, f"Queue of {name}.") for name, values in by_link.items()]
    return {
        _SYSCTL: None if swappiness is None else f"{_HEAD}vm.swappiness = {swappiness}\n",
        _TMPFILES: _HEAD + "".join(lines) if lines else None,
        KERNEL_RULES: "".join(of_udev) or None,
    }


def _refuse_unknown(values: list[_Value]) -> None:
    """Raise where the kernel has not what is asked, before anything is set."""
    for path, wanted in values:
        text = read(path)
        if text is None:
            raise StorageError(f"this kernel has no {path}, so nothing was changed")
        offered = text.replace("[", "").replace("]", "").split()
        if "[" in text and wanted not in offered:
            has = f"{path} offers {', '.join(offered)}, not {wanted}"
            raise StorageError(f"{has}, so nothing was changed; choose one of these")


def _ensure(module: AnsibleModule) -> dict[str, Any]:
    """Do what is asked, or only find out what would change, and return the module's result."""
    given = module.params
    waits = module.check_mode and given["planned"]
    by_link, queues = ({}, []) if waits else _queues(given)
    values = [*_values(given), *queues]
    _refuse_unknown(values)
    off = [value for value in values if value.live != value.wanted]
    files = _files(given, by_link)
    stale = {
        path: text for path, text in files.items() if read(path) != (text and text.rstrip("\n"))
    }
    changes = [f"set {x.path} from {x.live} to {x.wanted}" for x in off]
    changes += [f"{'write' if text else 'remove'} {path}" for path, text in stale.items()]
    changes += ["set the queues of the planned arrays"] if waits else []
    if not module.check_mode:
        for path, text in stale.items():
            replace(path, text)
        if KERNEL_RULES in stale:
            run(["udevadm", "control", "--reload"])
        for value in off:
            value.path.write_text(value.wanted)
        if left := [f"{x.path} is {x.live}, not {x.wanted}" for x in values if x.live != x.wanted]:
            raise StorageError(f"the kernel did not take it: {'; '.join(left)}")
    after = "".join(f"{line}\n" for line in changes)
    return {"changed": bool(changes), "changes": changes, "diff": {"before": "", "after": after}}


def main() -> None:
    """Run the module."""
    options = {
        "swappiness": {"type": "int"},
        "transparent_huge_pages": {"type": "str", "choices": ["always", "madvise", "never"]},
        "governor": {"type": "str"},
        "scheduler": {"type": "str"},
        "read_ahead_kib": {"type": "int"},
        "stripe_cache_pages": {"type": "int"},
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
