"""Make md arrays on named disks, or take down those that it made, by a sealed plan."""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.storage_disks import look
from ..module_utils.storage_files import record, require_marks
from ..module_utils.storage_geometry import StorageError, geometry
from ..module_utils.storage_host import ask, machine_id, prepare, read
from ..module_utils.storage_live import arrays, points
from ..module_utils.storage_plan import Host, Plan, all_disks, entries, make
from ..module_utils.storage_run import carry_out, wait

DOCUMENTATION = r"""
module: md_storage
short_description: Make md arrays on named disks, or take down those that it made
description:
  - Looks at the disks, refuses every one that is not blank or its own, and plans all steps.
    C(apply) carries the plan out only where I(confirm) is its hash; a check never does.
  - What it made is written to C(/etc/innolab/storage.json) with the UUIDs by which it is known.
    The same geometry again changes nothing. Needs root.
author: innolab
options:
  state: {description: Which to reach., type: str, choices: [present, absent], default: present}
  action: {description: What to do., type: str, choices: [plan, apply], default: plan}
  confirm: {description: Hash of the plan to carry out., type: str, default: ""}
  layout: {description: Layout of the arrays; needed where they are to be present., type: str}
  disks:
    description: The disks, in the order of the array's members, each by I(id), I(serial) and size.
    type: list
    elements: dict
    default: []
  chunk_kib: {description: Chunk of raid5 and raid10., type: int, default: 512}
  bitmap: {description: Write-intent bitmap., type: str, choices: [none, internal], default: none}
  journal: {description: Disk of raid5's write journal., type: dict}
  raid10_copies: {description: Where copies lie., type: str, choices: [near, far], default: near}
  size_mib: {description: How much of each disk to use; all where not given., type: int}
  zero: {description: Whether disks that can zero themselves do., type: bool, default: true}
  replace_ours: {description: Whether another geometry of ours may go., type: bool, default: false}
  contents_may_be_lost:
    description:
      - Serials of disks that may lose data which carry no signature. It opens nothing else, and the
        plan's hash covers what the disks hold.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Plan a mirror
  innolab.hosts.md_storage:
    layout: raid1
    disks:
      - {id: virtio-one, serial: one, size_bytes: 2147483648}
      - {id: virtio-two, serial: two, size_bytes: 2147483648}
"""

RETURN = r"""
plan: {description: The steps; none where all is as asked., type: list, returned: always}
hash: {description: What I(confirm) must be to carry them out., type: str, returned: always}
record: {description: The content of C(storage.json)., type: dict, returned: when present}
"""


def _host(wanted: dict[str, Any] | None) -> Host:
    """Return all that a plan depends on."""
    known = record()
    image = Path("/boot", f"initrd.img-{(read(Path('/proc/sys/kernel/osrelease')))}")
    assembles = (
        Path("/usr/share/initramfs-tools/hooks/mdadm").exists()
        and image.exists()
        and "/mdadm" in ask(["lsinitramfs", str(image)]).stdout
    )
    return Host(
        machine_id=machine_id(),
        record=known,
        facts=look(all_disks(wanted, known)),
        live=arrays(),
        mounts=points(),
        updates_initramfs=assembles,
    )


def _says(plan: Plan) -> str:
    steps = "\n".join(f"  {i}. {line}" for i, line in enumerate(plan.lines(), 1))
    return f"the plan:\n{steps}\nits hash: {plan.hash}"


def _summary(known: dict[str, Any]) -> str:
    """Return what there is, for a diff."""
    return "".join(
        f"{x['name']}: {x['level']} of {', '.join(y['id'] for y in x['members'])}\n"
        for x in known.get("places", [])
    )


def _ensure(module: AnsibleModule) -> dict[str, Any]:
    """Plan, carry the plan out if it is confirmed, and return the module's result."""
    given = module.params
    prepare()
    require_marks()
    wanted = geometry(given) if given["state"] == "present" else None
    host = _host(wanted)
    if not host.machine_id:
        raise StorageError("this host has no /etc/machine-id, by which a plan is bound to it")
    may_be_lost = frozenset(given["contents_may_be_lost"])
    plan = make(wanted, host, given["replace_ours"], given["zero"], may_be_lost)
    result = {"plan": plan.lines(), "hash": plan.hash, "record": plan.record}
    result["changed"] = bool(plan.steps)
    result["diff"] = {"before": _summary(host.record), "after": _summary(plan.record)}
    if module.check_mode or given["action"] == "plan":
        return result
    if not plan.steps:
        for entry in entries(plan.record):
            if entry["md_uuid"]:
                wait(entry["md_uuid"])
        return result
    if given["confirm"] != plan.hash:
        why = "it has no confirmation" if not given["confirm"] else "confirm is not its hash"
        raise StorageError(
            f"nothing was changed: {_says(plan)}\nIt was not carried out, as {why}. To carry it "
            f"out: -e storage_confirm={plan.hash}"
        )
    carry_out(plan, [facts.node for facts in host.facts.values() if facts.node])
    return result


def main() -> None:
    """Run the module."""
    disk = {
        "id": {"type": "str", "required": True},
        "serial": {"type": "str", "required": True},
        "size_bytes": {"type": "int", "required": True},
    }
    options = {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "action": {"type": "str", "choices": ["plan", "apply"], "default": "plan"},
        "confirm": {"type": "str", "default": ""},
        "layout": {"type": "str"},
        "disks": {"type": "list", "elements": "dict", "default": [], "options": disk},
        "chunk_kib": {"type": "int", "default": 512},
        "bitmap": {"type": "str", "choices": ["none", "internal"], "default": "none"},
        "journal": {"type": "dict", "options": disk},
        "raid10_copies": {"type": "str", "choices": ["near", "far"], "default": "near"},
        "size_mib": {"type": "int"},
        "zero": {"type": "bool", "default": True},
        "replace_ours": {"type": "bool", "default": False},
        "contents_may_be_lost": {"type": "list", "elements": "str", "default": []},
    }
    needed = [("state", "present", ["layout"])]
    module = AnsibleModule(options, required_if=needed, supports_check_mode=True)
    try:
        result = _ensure(module)
    except (StorageError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
