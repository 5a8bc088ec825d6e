"""The tables and sentences of the study raid-comparison."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from innolab.analysis import stats
from innolab.base.units import bytes_text
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage import raid
from innolab.storage.profiles import HOST, MIXED_READ_SHARE
from innolab.studies.raid_comparison import ARRAYS, LOADS, POOLS
from innolab.tables import Table, Text, host_facts, interval

_SHARES = {"read": 1.0, "write": 0.0, "mixed": MIXED_READ_SHARE}
_TITLES = {"read": "reads", "write": "writes", "mixed": "7 reads to 3 writes"}


def host(runs: RunSet) -> Table:
    """Return the facts of the arrays' host, as recorded with the first run on it."""
    of = next((run for run in runs.runs if _made(run)), runs.runs[0])
    return host_facts(of.conditions["host"])


def arrays(runs: RunSet) -> Table:
    """Return the arrays as they were made, and what fio got over what the formula says.

    Operations of 16 KiB a second; the lowest to the highest where an array was made several times.
    """
    return Table([_array(runs, name) for name in present(runs)] or [{"array": "none was made"}])


def present(runs: RunSet) -> list[str]:
    """Return the arrays that runs came as far as, in the order of the study's list."""
    made = {str(run.factors["device"]) for run in runs.runs if _made(run)}
    return [name for name in ARRAYS if name in made]


def _made(run: Run) -> Any:
    return run.conditions.get("device", {}).get("array")


def _array(runs: RunSet, name: str) -> dict[str, Any]:
    of = [run for run in runs.runs if run.factors["device"] == name and _made(run)]
    array = _made(of[0])
    observed = array["observed"]
    first = observed["arrays"][0] if observed["arrays"] else {}
    return {
        "array": name,
        "members": array["disks"],
        "for tables": ARRAYS[name].data_disks,
        "chunk": f"{first['chunk_kib']} KiB" if first.get("chunk_kib") else "",
        "barriers": "on" if observed["barriers"]["observed"] else "off",
        **{title: _speed(of, array["disk_iops"], name, kind) for kind, title in _TITLES.items()},
    }


def _speed(of: Sequence[Run], disk: float | None, name: str, kind: str) -> str:
    values = sorted(run.conditions["device"]["calibration"][f"{kind}_per_s"] for run in of)
    ends = dict.fromkeys(f"{value:,.0f}" for value in (values[0], values[-1]))
    text = " to ".join(ends)
    if disk:
        text += f" of {ARRAYS[name].iops(disk, _SHARES[kind]):,.0f}"
    return text


def penalty(disk_iops: float) -> Table:
    """Return what the formula says of reads and writes, by layout and number of disks.

    Parameters
    ----------
    disk_iops : operations a second of one disk
    """
    known = {"RAID1": "raid1", "RAID5": "raid5", "RAID10": "raid10"}
    return Table(
        [
            {
                "layout": title,
                "disks": disks,
                "a write costs": raid.Array(level, disks).write_penalty,
                **{
                    words: f"{raid.Array(level, disks).iops(disk_iops, _SHARES[kind]):,.0f}"
                    for kind, words in _TITLES.items()
                },
            }
            for title, level in known.items()
            for disks in (2, 4, 8)
            if not (level == "raid5" and disks < 3)
        ]
    )


def disk_iops(runs: RunSet) -> float:
    """Return what one disk gives in a second: as its owner says, else by what an array reads.

    Raises
    ------
    StopIteration
        Where no array was made.
    """
    first = next(run for run in runs.runs if _made(run))
    reads = first.conditions["device"]["calibration"]["read_per_s"]
    known = _made(first)["disk_iops"]
    return float(known or reads / ARRAYS[str(first.factors["device"])].data_disks)


def arms(runs: RunSet) -> Table:
    """Return the arms by array and load, with their pools and how many runs are valid."""
    counts = Counter((_series(run), run.valid) for run in runs.runs)
    pools: dict[Any, dict[str, None]] = {}
    for run in runs.runs:
        pools.setdefault(_series(run), {})[_pool(run)] = None
    return Table(
        [
            {
                "server": key[0],
                "on": key[1],
                "load": key[2],
                "access": key[3],
                "pool (of 11 GB)": ", ".join(p for p in POOLS if p in of),
                "valid runs": counts[key, True],
                "invalid or failed": counts[key, False],
            }
            for key, of in sorted(pools.items())
        ]
    )


def _series(run: Run) -> tuple[str, ...]:
    return tuple(str(run.factors[n]) for n in ("server", "device", "load", "distribution"))


def _pool(run: Run) -> str:
    return str(run.factors["case"]).rpartition("/")[2]


def sizes(runs: RunSet) -> Table:
    """Return the pools as they were, by server and load."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs.runs:
        if run.checks:
            pages = next(v for k, v in run.metrics.items() if k.endswith("_pool_pages"))
            assert isinstance(pages, int)
            row = rows.setdefault(_pool(run), {"pool": _pool(run)})
            row["pool over data"] = f"{run.factors['pool_ratio']:.3f}"
            name = f"{run.factors['server']}, {run.factors['load']}"
            row[name] = bytes_text(pages * 16 * 1024)
    return Table([rows[pool] for pool in POOLS if pool in rows])


def threads(runs: RunSet) -> list[int]:
    """Return the numbers of threads that were measured, ascending."""
    names = {name for run in runs.runs for name in run.metrics}
    return sorted(int(n[1:-4]) for n in names if n.startswith("t") and n.endswith("_tps"))


def throughput(runs: RunSet, load: str) -> Table:
    """Return transactions per second by array, pool and threads, with 95 % intervals."""
    rows = []
    for server in runs.levels("server"):
        for access in ("uniform", "special"):
            for pool in POOLS:
                for device in [*present(runs), HOST]:
                    of = {"server": server, "case": f"{device}/{load}/{access}/{pool}"}
                    cells = {f"{n} threads": _mean(runs, f"t{n}_tps", of) for n in threads(runs)}
                    if any(cells.values()):
                        head = {"server": server, "access": access, "pool": pool, "on": device}
                        rows.append({**head, **cells})
    return Table(rows or [{"throughput": "no valid run"}])


def _mean(runs: RunSet, metric: str, of: Mapping[str, Any]) -> str:
    values = list(runs.valid.values(metric, **of).values())
    return interval(stats.geometric_mean(values)) if values else ""


def costs(runs: RunSet, load: str) -> Table:
    """Return what a transaction cost and how busy the host was, uniform access, most threads."""
    most = max(threads(runs), default=0)
    rows = []
    for server in runs.levels("server"):
        for pool in POOLS:
            for device in [*present(runs), HOST]:
                case = f"{device}/{load}/uniform/{pool}"
                of = [
                    run
                    for run in runs.valid.runs
                    if run.factors["server"] == server and run.factors["case"] == case
                ]
                if of:
                    head = {"server": server, "pool": pool, "on": device, "threads": most}
                    rows.append({**head, **_cost(of, f"t{most}")})
    return Table(rows or [{"costs": "no valid run"}])


def _cost(of: Sequence[Run], name: str) -> dict[str, str]:
    def mean(metric: str, form: str) -> str:
        # Where a load took all processors, too few samples came over ssh to tell a share.
        values: list[Any] = [run.metrics.get(f"{name}_{metric}") for run in of]
        known = [value for value in values if value is not None]
        return format(sum(known) / len(known), form) if known else "not sampled"

    reached = sum(run.conditions["steady"][name]["reached"] for run in of)
    generator = max(run.conditions["sysbench"][name]["cpu_share"] for run in of)
    return {
        "pages read": mean("pages_read_per_tx", ".2f"),
        "pages written": mean("pages_written_per_tx", ".2f"),
        "p50 (ms)": mean("p50_ms", ",.0f"),
        "p95 (ms)": mean("p95_ms", ",.0f"),
        "busy": mean("busy_share", ".0%"),
        "waiting for disks": mean("iowait_share", ".0%"),
        "sysbench's CPU": f"{generator:.0%}",
        "steady": f"{reached} of {len(of)}",
    }


def emulation(runs: RunSet) -> Table | Text:
    """Return what the lab's processors give over this machine's own, all data in memory."""
    if HOST not in runs.levels("device"):
        return Text(["No arm ran on this machine itself, so nothing is said of emulation."])
    rows = []
    for server in runs.levels("server"):
        for load in LOADS:
            for number in threads(runs):
                row = {"server": server, "load": load, "threads": number}
                to = {"server": server, "case": f"{HOST}/{load}/uniform/12G"}
                row["this machine (tps)"] = _mean(runs, f"t{number}_tps", to)
                for device in present(runs):
                    of = {"server": server, "case": f"{device}/{load}/uniform/12G"}
                    row[f"{device} over it"] = _ratio(runs, f"t{number}_tps", of, to)
                rows.append(row)
    return Table(rows)


def _ratio(runs: RunSet, metric: str, of: Mapping[str, Any], to: Mapping[str, Any]) -> str:
    top, bottom = runs.valid.pairs(metric, of, to)
    return interval(stats.paired_ratio(top, bottom)) if top else ""


def gains(runs: RunSet) -> Table:
    """Return what memory and what an array gains over RAID1 with 4 of 11 GB in memory."""
    rows = []
    for server in runs.levels("server"):
        for load in LOADS:
            for number in threads(runs):
                base = {"server": server, "case": f"raid1-2/{load}/uniform/4G"}
                gained = {
                    words: _ratio(runs, f"t{number}_tps", {"server": server, "case": case}, base)
                    for words, case in {
                        "RAID10 of four disks": f"raid10-4/{load}/uniform/4G",
                        "memory for 8 of 11 GB": f"raid1-2/{load}/uniform/8G",
                        "memory for all": f"raid1-2/{load}/uniform/12G",
                    }.items()
                }
                if any(gained.values()):
                    rows.append({"server": server, "load": load, "threads": number, **gained})
    return Table(rows or [{"gains": "raid1-2 or raid10-4 did not run"}])


def headline(runs: RunSet) -> list[str]:
    """Return the question's answer in measured numbers, a sentence for each server and load."""
    said = []
    for server in runs.levels("server"):
        for load in LOADS:
            base = {"server": server, "case": f"raid1-2/{load}/uniform/4G"}
            found = {
                words: _ratio(runs, "t10_tps", {"server": server, "case": case}, base)
                for words, case in {
                    "RAID5 of four disks gives": f"raid5-4/{load}/uniform/4G",
                    "RAID10 of four": f"raid10-4/{load}/uniform/4G",
                    "memory for all data instead": f"raid1-2/{load}/uniform/12G",
                }.items()
            }
            if all(found.values()):
                words = "; ".join(f"{what} {times} times" for what, times in found.items())
                at = _mean(runs, "t10_tps", base)
                said.append(
                    f"{server}, {load}: with 4 of 11 GB in memory a mirror of two disks gives {at} "
                    f"transactions a second at 10 threads. Of that, {words}."
                )
    return said
