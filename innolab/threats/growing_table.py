"""Threats to the validity of the study compressed-insert, written from what its runs recorded."""

from innolab.analysis.growth import BIN_MROWS
from innolab.base.units import bytes_text, seconds_text
from innolab.loads import oltp
from innolab.record.run import Run
from innolab.record.runs import RunSet
from innolab.storage.profiles import HOST
from innolab.studies.compressed_insert import END_MROWS, KNEE_BYTES, KNEE_MROWS, PERIOD_S
from innolab.tables import Text
from innolab.threats import of_the_host, redo_bytes, variables_of


def threats(runs: RunSet) -> Text:
    """Return how these runs depart from seed S1, and what their host may have done to them."""
    if not runs.valid.runs:
        return Text(["No run is valid, so nothing was measured.", *of_the_host(runs)])
    said = _insert_departures(runs) + _of_the_formats(runs) + _of_small_sizes(runs)
    return Text([*said, *of_the_host(runs)])


def _insert_departures(runs: RunSet) -> list[str]:
    done = runs.valid.runs
    versions = sorted({run.conditions["build"]["version"] for run in done})
    rows = sorted({sum(s["rows"] for s in run.conditions["segments"]) for run in done})
    commits = {variables_of(runs, run)["innodb_flush_log_at_trx_commit"] for run in done}
    return [
        "The seed states no hardware, no version of MySQL, no contents of its strings, no rows a "
        "statement, no flush settings and no size of the redo log. What made its curves fall "
        f"cannot be known from it. These runs are of {', '.join(versions)}.",
        f"{' or '.join(f'{n:,}' for n in rows)} rows stand for {END_MROWS[runs.runs[0].scale]} "
        "million of the original's, which inserted 200 million and drew 130 million; what ends at "
        f"130 million says nothing beyond. {KNEE_BYTES / KNEE_MROWS / 1e6:.0f} bytes a row are "
        "our arithmetic from its file of about 5 GB at 70 million rows; pools are in proportion "
        "to that, while a row here takes what the table of formats says.",
        f"innodb_flush_log_at_trx_commit is {', '.join(sorted(commits))}. With 2 the log is "
        "written at commit and synced once a second; with 1, which the seed may have had, each "
        "commit would wait for the disk.",
        "Many connections that insert keys in order split pages where one alone would fill them, "
        "and how full they stay depends on the server: the plain table's leaf pages take "
        f"{_by_server(runs, 'plain/auto/4G', 'leaf_bytes_per_row')} bytes a row. A format's ratio "
        "to the plain table is also one to how full that is.",
    ]


def _of_the_formats(runs: RunSet) -> list[str]:
    by_zlib = _by_server(runs, "compressed/auto/4G", "zlib_ratio")
    failed = _by_server(runs, "compressed/auto/4G", "compress_failed_ratio", ".0%")
    have = {str(r.factors["server"]) for r in runs.runs if r.factors["format"] == "page"}
    lack = sorted(set(runs.levels("server")) - have)
    said = [
        "How far strings compress is ours, by the parameter random_share: zlib makes them "
        f"smaller {by_zlib} times. Of the attempts to fit a page into a compressed one {failed} "
        "failed, which splits a page or leaves it less full; other strings, or another "
        "KEY_BLOCK_SIZE, would fail more or less often.",
        "A compressed table's pages lie in the pool both compressed and, where they are worked "
        "on, plain. Its size over the pool counts them once, compressed.",
    ]
    if have and lack:
        said.append(f"Compression of pages by punched holes is not in {', '.join(lack)}.")
    return said


def _of_small_sizes(runs: RunSet) -> list[str]:
    of = variables_of(runs, runs.valid.runs[0])
    full = oltp.redo_bytes(KNEE_BYTES // oltp.BYTES_PER_ROW)
    undo = of.get("innodb_undo_logs") or of["innodb_rollback_segments"]
    return [
        f"The redo log has {bytes_text(redo_bytes(of))} beside pools of {_pools(runs)}; at the "
        f"original's size it has {bytes_text(full)} beside some 4 and 8 GB. It shrinks with the "
        "rows down to the least that today's server takes: at small scales more pages may stay "
        "dirty before the log is full and they must be written.",
        f"Rollback segments are {undo}, at the original's size 128: more would fill a small pool "
        f"with undo logs. innodb_lru_scan_depth is {of['innodb_lru_scan_depth']} and "
        f"innodb_old_blocks_time {of['innodb_old_blocks_time']} ms, in proportion to the rows or "
        "the least there is; their defaults are 1024 and 1000.",
        "Files grow by whole extents, and connections that split pages at once reserve several "
        "ahead. That does not shrink with the rows: at small scales it is most of what files have "
        "beyond the table's pages.",
        f"Each server is run in: {_run_in(runs)} of an earlier table go in first, many a "
        "statement, until the redo log has come round. Its pool is full of them when the run "
        "begins, and pages are written at the pace that they are dirtied.",
        f"{_durations(runs)} Rows are sampled every {PERIOD_S[runs.runs[0].scale]:g} s, with "
        "straight lines between.",
        *_of_emulation(runs),
        *_of_the_processors(runs),
    ]


def _of_the_processors(runs: RunSet) -> list[str]:
    """Return how far the processors' own speed moved, by equal work of the load generator."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in runs.valid.runs:
        arm = str(run.factors["server"]), str(run.factors["case"])
        found.setdefault(arm, []).append(_metric(run, "generator_us_per_row"))
    (server, case), times = max(found.items(), key=lambda item: max(item[1]) / min(item[1]))
    if len(times) == 1:
        return []
    return [
        f"Processors do not keep their speed here: in equal runs of {case} on {server} a row took "
        f"the load generator {min(times):.1f} to {max(times):.1f} µs. A curve of one run that "
        "steps by as much may show the processors and not the table."
    ]


def _run_in(runs: RunSet) -> str:
    found = {run.conditions.get("run_in", {}).get("rows", 0) for run in runs.valid.runs}
    return " or ".join(f"{rows:,} rows" for rows in sorted(found) if rows) or "no rows"


def _durations(runs: RunSet) -> str:
    segments = [run.conditions["segments"] for run in runs.valid.runs]
    took = [sum(one["seconds"] for one in of) for of in segments]
    paused = max(len(of) for of in segments) > 1
    pauses = " Pauses between segments are not counted, but let the server flush."
    bins = [BIN_MROWS / END_MROWS[runs.runs[0].scale] * seconds for seconds in took]
    return (
        f"A run took {seconds_text(min(took))} to {seconds_text(max(took))}, so a point of its "
        f"curves {seconds_text(min(bins))} to {seconds_text(max(bins))}: where that is near a "
        "second, what the server and the kernel do once a second makes neighbouring points differ."
        + (pauses if paused else "")
    )


def _of_emulation(runs: RunSet) -> list[str]:
    on = sorted({str(r.factors["device"]) for r in runs.valid.runs} - {HOST})
    if not on:
        return []
    plain, packed = (
        [_by_server(runs, f"{form}/auto/4G", f"{what}_bytes_per_row") for what in ("redo", "leaf")]
        for form in ("plain", "compressed")
    )
    return [
        f"{', '.join(on)} is made by limits on operations and bytes a second alone. It has no "
        "seeks, no cache and no flush that takes time: what random writes cost a real disk is not "
        "in these numbers.",
        "On a disk with capped writes the first rows pay for what server and kernel had put off "
        "in the run-in, so the first span is too slow there, and later ones look faster than it.",
        f"No format makes the redo log smaller. A row of the plain table has {plain[0]} bytes of "
        f"it, beside {plain[1]} of leaf pages; one of the compressed table {packed[0]}, beside "
        f"{packed[1]}. A cap on writes is on both.",
    ]


def _by_server(runs: RunSet, case: str, metric: str, form: str = ".3g") -> str:
    """Return the mean of a metric on each server, on all devices."""
    said = []
    for server in sorted(runs.levels("server")):
        values = [
            _metric(run, metric)
            for run in runs.valid.runs
            if run.factors["server"] == server and str(run.factors["case"]).endswith(f"/{case}")
        ]
        if values:
            said.append(f"{sum(values) / len(values):{form}} ({server})")
    return " and ".join(said) or "not measured"


def _metric(run: Run, name: str) -> float:
    value = run.metrics[name]
    assert not isinstance(value, list)
    return float(value)


def _pools(runs: RunSet) -> str:
    sizes = {int(variables_of(runs, r)["innodb_buffer_pool_size"]) for r in runs.valid.runs}
    return " and ".join(bytes_text(size) for size in sorted(sizes))
