"""Threats to validity, written from what the runs recorded."""

from innolab.base.units import bytes_text
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.tables import Text


def multi_buffer_pool(runs: RunSet) -> Text:
    """Return how these runs depart from seed S3, and what their host may have done to them."""
    return Text([*_departures(runs), *of_the_host(runs), *_of_first_touch(runs)])


def more_memory(runs: RunSet) -> Text:
    """Return how these runs depart from seeds S0 and S2, and what their host may have done."""
    return Text([*_memory_departures(runs), *_steadiness(runs), *of_the_host(runs)])


def raid_comparison(runs: RunSet) -> Text:
    """Return how these runs depart from seed S1, and what their host may have done to them."""
    return Text([*_raid_departures(runs), *_of_the_arrays(runs), *_shares(runs)])


def _raid_departures(runs: RunSet) -> list[str]:
    done = [run for run in runs.runs if run.checks]
    rows = sorted({run.conditions["dataset"]["rows"] for run in done})
    versions = sorted({run.conditions["build"]["version"] for run in done})
    commits = {variables_of(runs, run)["innodb_flush_log_at_trx_commit"] for run in done}
    return [
        f"The seed states no version of MySQL, no number of disks, no controller cache, no file "
        f"system, no duration and no distribution. These runs are of {', '.join(versions)}; disks, "
        "chunk and file system are in the table of arrays, access is uniform unless said.",
        f"The table has {' or '.join(f'{n:,}' for n in rows)} rows, the original 50,000,000; pools "
        "and redo log shrink with it. What a server keeps in its pool beside the table does not "
        "shrink, so that a writing load reads some pages even where the pool is larger than the "
        "table, and pushes dirty pages out.",
        "A writing transaction has 20 queries: sysbench 1.0 issues its updates of k twice on "
        "request, which comes nearest to the 19 of sysbench 0.4. It loads random rows where 0.4 "
        "loaded constant ones.",
        f"innodb_flush_log_at_trx_commit is {', '.join(sorted(commits))}, and no disk has a "
        "battery-backed cache: a commit waits for the log's disk. A controller with such a cache, "
        "which the seed may have had, takes these writes at once.",
        "Each number of threads is a window within one start of the server, in an order drawn "
        "anew for each start. An array is made once a block and keeps all its arms of that block "
        "together, since making it takes longer than a trial: a drift of the host within a block "
        "falls on arrays unevenly, which the blocks' own orders even out.",
        "Latencies are service times of a closed loop: what waits behind a slow transaction is not "
        "counted.",
    ]


def variables_of(runs: RunSet, run: Run) -> dict[str, str]:
    """Return the server variables that a run had in force."""
    return runs.variables[run.conditions["variables"]]


def _of_the_arrays(runs: RunSet) -> list[str]:
    made = [a for r in runs.runs if (a := r.conditions.get("device", {}).get("array"))]
    said = []
    if any(array["accelerator"] == "tcg" for array in made):
        said.append(
            "The host's processors are emulated by software. Disks are not slowed by that, "
            "processors are: where a mirror would wait for its disks and a larger array would let "
            "the processors work, differences between arrays come out too small. The table of "
            "emulation says by how much arms in memory are slowed."
        )
    if any(array["disk_iops"] for array in made):
        speeds = sorted({f"{array['disk_iops']:,.0f}" for array in made if array["disk_iops"]})
        said.append(
            f"A disk gives {' or '.join(speeds)} operations a second, whatever their size and "
            "place: no seeks, no rotation, no cache, so that sequential work is as slow as random "
            "work of the same number of operations, and as fast where operations are large."
        )
    if any(one.get("assume_clean") for array in made for one in array["observed"]["arrays"]):
        said.append(
            "Arrays on members that are all zero were made without a first resync, whose result "
            "would be the same."
        )
    return said


def _shares(runs: RunSet) -> list[str]:
    usage = [run.conditions["usage"] for run in runs.runs if run.checks]
    if not usage:
        return []
    others = max(one["others_share"] for one in usage)
    return [
        f"At worst {others:.1%} of the CPU time was used by other processes during a run, on the "
        "host or on the machine that emulates it."
    ]


def _memory_departures(runs: RunSet) -> list[str]:
    done = [run for run in runs.runs if run.checks]
    rows = sorted({run.conditions["dataset"]["rows"] for run in done})
    versions = sorted({run.conditions["build"]["version"] for run in done})
    redo = sorted({redo_bytes(runs.variables[run.conditions["variables"]]) for run in done})
    commits = {
        runs.variables[r.conditions["variables"]]["innodb_flush_log_at_trx_commit"] for r in done
    }
    said = [
        f"The seeds ran Percona-XtraDB 9.1 on 16 cores of 2010; these runs are of "
        f"{', '.join(versions)} on {_cores(runs)} cores, so the ratio of processor to disk is "
        "another: where the processor is the bound, ratios between devices shrink.",
        f"The table has {' or '.join(f'{n:,}' for n in rows)} rows, the original 80,000,000. "
        "Pools and redo log shrink with it, as do the depth of the page cleaner's scan and the "
        "time that a page counts as old; the redo log has "
        f"{' or '.join(bytes_text(n) for n in redo)}, in the original's proportion or the least "
        "that today's server takes. What a server keeps in its pool beside the table (undo logs "
        "above all) does not shrink, so that writing loads read pages even where the pool is as "
        "large as the table.",
        "Pool over data is taken of what a load asks for: reading loads never touch the secondary "
        "index. The original's 18 GB are data and index, and its graph's points were found by eye; "
        "on such a scale these levels would lie a sixteenth lower for reading loads.",
        "Number of threads, duration, distribution of study B, my.cnf and redo size are not stated "
        "by the seeds; they are ours. sysbench 1.0 loads random rows where 0.4 loaded constant "
        "ones; zipf is drawn by a script of ours, since sysbench 1.0 cannot.",
        f"innodb_flush_log_at_trx_commit is {', '.join(sorted(commits))}. With 2 the log is "
        "written at commit and synced once a second, which stands for the battery-backed cache of "
        "the original array; a crash of the machine could lose a second of commits.",
        "Latencies are service times of a closed loop: what waits behind a slow transaction is not "
        "counted.",
    ]
    if any(run.conditions["device"]["emulated"] for run in done):
        said.append(
            "Emulated devices limit operations and bytes a second, for reads and writes apart. "
            "They have no seek time, no cache, no garbage collection; a mix of reads and writes "
            "gets more from them than from real mirrors, which share their arms. Flushes cost "
            "nothing."
        )
    return said


def redo_bytes(variables: dict[str, str]) -> int:
    """Return the size of a server's whole redo log, by the variables of old and new servers."""
    if capacity := variables.get("innodb_redo_log_capacity"):
        return int(capacity)
    size, files = (variables[f"innodb_log_{name}"] for name in ("file_size", "files_in_group"))
    return int(size) * int(files)


def _cores(runs: RunSet) -> str:
    return " or ".join(sorted({str(run.conditions["host"]["cores"]) for run in runs.runs}))


def _steadiness(runs: RunSet) -> list[str]:
    said = []
    for mode in ("read_only", "read_write"):
        found = [
            r.conditions["steady"][mode] for r in runs.valid.runs if mode in r.conditions["steady"]
        ]
        if found:
            reached = sum(one["reached"] for one in found)
            window = max(one["window_s"] for one in found)
            said.append(
                f"{reached} of {len(found)} {mode} runs were steady in throughput, dirty pages, "
                f"checkpoint age and free pages over a window of {window} s; the others count and "
                "their verdicts say so."
            )
    return said


def _departures(runs: RunSet) -> list[str]:
    facts = [run.conditions["dataset"] for run in runs.runs if run.checks]
    versions = sorted({run.conditions["build"]["version"] for run in runs.runs if run.checks})
    sizes = sorted({f["data_bytes"] for f in facts})
    rows = sorted({f["rows"] for f in facts})
    return [
        f"The seed ran MySQL 5.7.18, built by its author; these runs are of {', '.join(versions)}.",
        f"The table holds {' or '.join(f'{n:,}' for n in rows)} rows in "
        f"{' or '.join(f'{n:,}' for n in sizes)} bytes; the seed's had 10,000,000 in "
        "1,378,877,440. The rows are the seed's, inserted by a cross join instead of a procedure.",
        "The seed dropped all of the kernel's caches; here the data files alone are evicted (the "
        "check named cold says whether they were gone), so binaries and directories stay cached. "
        "The scan is timed after the server has started, so this can favour no arm.",
        "The seed's correction compares 256 MB and its retracted part 128 MB; both are run. The "
        "seed does not state its flush method; `fsync` was its version's default.",
        "One clone of the data per server serves all its trials; the check named tables unchanged "
        "compares size and modification time of the table's file after each.",
        "No row format was asked for, as in the seed: 5.6 makes COMPACT and 9.7 DYNAMIC rows. The "
        "table's size, recorded above, shows whether that matters.",
    ]


def of_the_host(runs: RunSet) -> list[str]:
    """Return what the host may have done to any study's runs."""
    host = runs.runs[0].conditions["host"]
    said = []
    if len({str(run.conditions["host"]) for run in runs.runs}) > 1:
        said.append("The host changed between runs: compare arms within a block only.")
    if host["virtual"]:
        said.append(
            "The host is virtual. A layer below may hold the data in a cache of its own, so cold "
            "means cold for this kernel: what it reads may come from that cache, not from a disk."
        )
    if host["free_page_reporting"]:
        said.append(
            "This guest gives its free memory back to the hypervisor when idle (free page "
            "reporting). Touching it again costs a fault in the hypervisor for every page, which "
            "falls on whatever needs new memory."
        )
    usage = [run.conditions["usage"] for run in runs.runs if run.checks]
    if usage:
        steal = max(u["steal_share"] for u in usage)
        others = max(u["others_share"] for u in usage)
        said.append(
            f"At worst {steal:.1%} of the CPU time was stolen by a hypervisor and {others:.1%} "
            "was used by other processes during a run."
        )
    return said


def _of_first_touch(runs: RunSet) -> list[str]:
    host = runs.runs[0].conditions["host"]
    said = []
    if host["free_page_reporting"]:
        said.append(f"The first pass bears most of that: {_kernel_spread(runs)}.")
    pools = sorted({int(run.factors["buffer_pool_bytes"]) for run in runs.runs})
    said.append(
        f"Pools range from {bytes_text(pools[0])} to {bytes_text(pools[-1])} on a host with "
        f"{bytes_text(host['memory_bytes'])} of memory. A larger pool is memory that a fresh "
        "server touches for the first time during the first pass, and the kernel must hand it out "
        "page by page: the first pass measures that as well as the disk."
    )
    return said


def _kernel_spread(runs: RunSet) -> str:
    """Return how the first pass's CPU time spreads within an arm: in the kernel, and outside it."""
    said = []
    for part in ("kernel", "user"):
        spans = [_span(runs, part, {"server": s, "case": c})
                 for s in runs.levels("server") for c in runs.levels("case")]  # fmt: skip
        said.append(f"{part} CPU seconds of equal runs differ by up to {max(spans):.1f} s")
    return ", ".join(said)


def _span(runs: RunSet, part: str, arm: dict[str, str]) -> float:
    total = runs.valid.values("pass1_mysqld_cpu_s", **arm)
    kernel = runs.valid.values("pass1_kernel_cpu_s", **arm)
    values = [kernel[b] if part == "kernel" else total[b] - kernel[b] for b in total]
    return max(values) - min(values) if values else 0.0
