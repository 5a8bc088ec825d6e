"""Two servers that scan from memory in turn, each while the other is stopped.

A warm scan of one connection scatters by 6 to 35 % between starts that are minutes apart, and by
3 % between slices of seconds of two servers that are both up. The unit is the pair of starts: one
ratio each.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from innolab.analysis import stats
from innolab.analysis.bounds import Bound, Record, all_exactly
from innolab.analysis.claims import Claim
from innolab.analysis.doubts import Doubted, Sample
from innolab.analysis.outcomes import EVERY
from innolab.base.errors import InnolabError
from innolab.base.language import message
from innolab.bench.passes import STAGE
from innolab.bench.trial import Bench
from innolab.hosts import observe
from innolab.mysql.server import Server
from innolab.record.run import Level, Observation
from innolab.studies.multi_buffer_pool.parameters import IN_TURN, ScanParameters, settings
from innolab.studies.multi_buffer_pool.table import SCAN
from innolab.studies.parameters import ByEffort
from innolab.studies.study import Arm

SIDES = ("own", "other")
# So that a machine that grows slower or faster does so for both.
_ORDER = ("own", "other", "other", "own")
_ROUNDS = ByEffort(1, 2, 3)
_NOTED = "scans_in_turn"
# The same arm on both servers; off by more than this, what differs is not the arm.
_SAME: dict[str, Level] = {"pool": "2G", "instances": 1, "beside": "2G in one"}
_MOST_APART = 0.03


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Scan by the arm's server and by that of another arm in turn; yields the mean of each.

    Of two copies of the same data one may be read some hundredths faster, so servers and copies
    swap from block to block.
    """
    parameters: ScanParameters = bench.parameters
    copies = [bench.clone(None, None), bench.clone("second", None)]
    if bench.block % 2:
        copies.reverse()
    asked = settings(parameters, arm, bench.dataset_facts)
    asked_other = settings(parameters, Arm(**vars(arm) | IN_TURN[arm.beside]), bench.dataset_facts)
    with (
        bench.cold_server(asked, copies[0]) as own,
        bench.second_server(asked_other, copies[1]) as other,
    ):
        bench.note("scan_plan", own.explain(SCAN))
        with bench.clock.stage("warm-up"):
            for server in (own, other):
                server.query(SCAN)
        servers = dict(zip(SIDES, (own, other), strict=True))
        with bench.clock.stage(STAGE):
            for side in _ORDER * _ROUNDS.of(parameters):
                [stopped] = [server for name, server in servers.items() if name != side]
                with stopped.stopped():
                    bench.note_row(_NOTED, {"side": side, **_timed(bench, servers[side])})
    yield from _observations(bench.conditions[_NOTED])


def _timed(bench: Bench, server: Server) -> dict[str, float]:
    assert bench.sampler is not None
    with server.cursor() as cursor:
        before = observe.process_usage(server.host, server.pid)
        from_s = bench.sampler.now_s()
        cursor.execute(SCAN)
        [(counted,)] = cursor.fetchall()
        to_s = bench.sampler.now_s()
        after = observe.process_usage(server.host, server.pid)
    if counted != (rows := bench.dataset_facts["rows"]):
        raise InnolabError(f"The scan counted {counted:,} rows of {rows:,}.")
    return {"from_s": from_s, "to_s": to_s, "cpu_s": after.cpu_s - before.cpu_s}


def _observations(scans: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    by_side = defaultdict(list)
    for scan in scans:
        by_side[scan["side"]].append(scan)
    for side, of_side in by_side.items():
        seconds = [scan["to_s"] - scan["from_s"] for scan in of_side]
        yield {
            "side": side,
            "turn_seconds": stats.geometric_mean(seconds).estimate,
            "cpu_s": sum(scan["cpu_s"] for scan in of_side) / len(of_side),
        }


def evidence(record: Record) -> Iterator[Bound]:
    """Yield the bounds of what two servers took in turn: their scans, one after the other.

    Raises
    ------
    ValueError
        If scans overlap, or took longer than the stage that they are of.
    """
    scans = record.noted(_NOTED)
    ends = [end for scan in scans for end in (scan["from_s"], scan["to_s"])]
    if ends != sorted(ends):
        raise ValueError("scans that were to be in turn overlap")
    if scans and ends[-1] - ends[0] > record.run.conditions["time_s"][STAGE]:
        raise ValueError("scans in turn that took longer than measuring did")
    for row in _observations(scans):
        within = {"side": row.pop("side")}
        yield from all_exactly(within, row)


def unlike_itself(sample: Sample) -> Doubted | None:
    """Doubt servers in turn where one arm on both of them differs from itself."""
    if not _is_in_turn(sample.claim):
        return None
    device = sample.claim.sides[0]["device"]
    own, other = (
        {"device": device, "flush_method": "fsync", **_SAME, "side": side} for side in SIDES
    )
    pairs = sample.runs.pairs("turn_seconds", own, other)
    if len(pairs[0]) < 2:
        return None
    ratio = stats.paired_ratio(*pairs)
    if ratio.low <= 1 <= ratio.high or abs(ratio.estimate - 1) <= _MOST_APART:
        return None
    says = message("the same arm on both servers in turn gave {ratio:.3f}", ratio=ratio.estimate)
    return Doubted(says, EVERY, message("servers in turn that are alike"))


def _is_in_turn(claim: Claim) -> bool:
    return bool(claim.compare) and all(side.get("beside") in IN_TURN for side in claim.sides)
