"""Compare what was asked of a host with what is so. Pure."""

from __future__ import annotations

from typing import Any

from .storage_geometry import Place, places


def mismatches(requested: dict[str, Any], observed: dict[str, Any]) -> list[str]:
    """Return every difference between what is asked and what is so, in words; none if none is."""
    wanted = places(requested["storage"])
    points = {place.name: requested["filesystem"][place.name] for place in wanted}
    return [
        *_arrays(wanted, {x["name"]: x for x in observed["arrays"]}),
        *_mounts(wanted, points, requested["filesystem"], observed["mounts"]),
        *_barriers(requested["filesystem"], observed["barriers"]),
        *_kernel(requested["kernel"], observed["kernel"]),
    ]


def _differ(what: str, wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [
        f"{what}: {key} should be {value} but is {found.get(key)}"
        for key, value in wanted.items()
        if found.get(key) != value
    ]


def _arrays(wanted: list[Place], found: dict[str, dict[str, Any]]) -> list[str]:
    wrong = [f"there is an array {name} that was not asked for" for name in found.keys()
             - {place.name for place in wanted}]  # fmt: skip
    for place in wanted:
        if place.name not in found:
            wrong.append(f"{place.device} does not run")
            continue
        wanted = {
            "level": place.level,
            "members": [disk.id for disk in place.members],
            "chunk_kib": place.chunk_kib,
            "raid10_layout": place.copies,
            "bitmap": place.bitmap,
            "journal": place.journal.id if place.journal else None,
        }
        if place.level != "single":
            wanted |= {"sync_action": "idle", "degraded": 0}
            wanted |= {"size_mib": place.size_mib} if place.size_mib else {}
        wrong += _differ(place.device, wanted, found[place.name])
    return wrong


def _mounts(
    wanted: list[Place],
    points: dict[str, str],
    requested: dict[str, Any],
    found: list[dict[str, Any]],
) -> list[str]:
    wrong, by_path = [], {mount["path"]: mount for mount in found}
    for place in wanted:
        point = points[place.name]
        if not (mount := by_path.get(point)):
            wrong.append(f"{place.device} should be mounted at {point} but is not")
            continue
        wrong += _differ(point, {"source": place.device, "fstype": "xfs"}, mount)
        missing = [x for x in requested["mount_options"] if x not in mount["options"].split(",")]
        wrong += [f"{point}: the option {x} is not in effect" for x in missing if x != "defaults"]
    return wrong


def _barriers(requested: dict[str, Any], found: dict[str, Any]) -> list[str]:
    wrong = []
    if found["observed"] != requested["barriers"]:
        says = {True: "on", False: "off"}
        asked, is_so = says[requested["barriers"]], says[found["observed"]]
        wrong.append(f"barriers should be {asked} but are {is_so}")
    if not found["observed"] and not requested["cache_is_nonvolatile"]:
        wrong.append("barriers are off but nobody said that caches keep their content")
    return wrong


def _kernel(requested: dict[str, Any], found: dict[str, Any]) -> list[str]:
    asked = {key: value for key, value in requested.items() if value is not None}
    alone = {x: asked[x] for x in ("swappiness", "transparent_huge_pages") if x in asked}
    if found["transparent_huge_pages"] is None:  # a kernel without them never makes any
        alone.pop("transparent_huge_pages", None)
    wrong = _differ("kernel", alone, found)
    if "governor" in asked and set(found["governors"]) - {asked["governor"]}:
        wrong.append(
            f"kernel: governors should be {asked['governor']} but are {found['governors']}"
        )
    keys = ("scheduler", "read_ahead_kib", "stripe_cache_pages")
    for name, queue in found["queues"].items():
        # None is for what a device has not, such as a scheduler of an array.
        wanted = {key: asked[key] for key in keys if key in asked and queue[key] is not None}
        wrong += _differ(name, wanted, queue)
    return wrong
