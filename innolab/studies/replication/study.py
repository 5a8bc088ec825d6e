"""Replication: scale out, fail over, divide (seed S1, part 3; study E)."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, get_args

from pydantic import model_validator

from innolab.analysis import acknowledged
from innolab.analysis.checks import USUAL
from innolab.analysis.evidence import Check
from innolab.bench import oltp
from innolab.bench.trial import Bench
from innolab.hosts import network
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.record.plan import Blocks
from innolab.record.run import Level, Observation
from innolab.storage.profiles import HOST, limited
from innolab.studies.parameters import (
    ByEffort,
    ByScale,
    Devices,
    Parameters,
    Threads,
    one_of,
    repeats,
)
from innolab.studies.replication import (
    crossing,
    failing,
    failover,
    failover_bench,
    replicated_windows,
    spreading,
)
from innolab.studies.replication.faults import FAULTS
from innolab.studies.study import SERVER_OVERHEAD_BYTES, Arm, Facts, Study

POOL_RATIO = 1 / 3
MOST_NODES = 5
_SYNCED = {"sync_binlog": 1, "innodb_flush_log_at_trx_commit": 1}
_ALONE = replication.semi_sync(on=False)
# What a commit waits for. "relaxed" syncs neither log, "log later" not InnoDB's own; "short" waits
# for a replica, but not for long; "both" for two, where the server can (since 5.7.3).
COMMITS: Mapping[str, dict[str, Any]] = {
    "relaxed": {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 2, **_ALONE},
    "log later": {"sync_binlog": 1, "innodb_flush_log_at_trx_commit": 2, **_ALONE},
    "async": {**_SYNCED, **_ALONE},
    "semi-sync": {**_SYNCED, **replication.semi_sync(on=True)},
    "both": {**_SYNCED, **replication.semi_sync(on=True, wait_for=2)},
    "short": {**_SYNCED, **replication.semi_sync(on=True, timeout_ms=100)},
}
_USUALLY: Mapping[str, Level] = {
    "replicas": 2, "appliers": 1, "commit": "async", "fault": "none", "binlog": "ROW",
    "moved_by": "nobody",
}  # fmt: skip


class ReplicationParameters(Parameters):
    """The common parameters; the first device is that of loads, the last that of faults.

    Attributes
    ----------
    threads : the connections of the load
    devices : devices of limits, or host: the first for loads, the last for faults
    nodes : an inventory, or INVENTORY:GROUP, over whose hosts servers are spread by ssh; left out,
        they are namespaces of this machine
    """

    ROWS: ClassVar = ByScale(100_000, 400_000, 4_000_000)
    threads: Threads = 8
    # One set of arms cannot be several disks, so only limits are shared out between servers.
    devices: Annotated[Devices, one_of({**limited(), HOST: None}, "devices")] = ["15k", HOST]
    nodes: str | None = repeats(None, min_length=1)

    @model_validator(mode="after")
    def _limited_on_one_machine(self) -> "ReplicationParameters":
        if self.nodes is not None and self.devices != [HOST]:
            raise ValueError(
                f"servers on several hosts (nodes) run on the disks of these: add -p devices={HOST}"
            )
        return self


@cache
def cases(effort: str, devices: tuple[str, ...]) -> list[dict[str, Level]]:
    """Return the arms, each by all its levels but that of the server."""
    loaded, faulty = {"device": devices[0]}, {"device": devices[-1]}

    def case(system: str, **levels: Level) -> dict[str, Level]:
        return {"system": system, **_USUALLY, **levels}

    def spread(replicas: int, appliers: int = 1) -> dict[str, Level]:
        return case("spread", replicas=replicas, appliers=appliers, **loaded)

    def fault(kind: str, commit: str, moved_by: str = "keepalived") -> dict[str, Level]:
        return case("failover", commit=commit, fault=kind, moved_by=moved_by, **faulty)

    def power(commit: str) -> dict[str, Level]:
        return case("power", replicas=0, fault="power", commit=commit, **loaded)

    def pyramid(binlog: str) -> dict[str, Level]:
        return case("pyramid", binlog=binlog, **loaded)

    few = [spread(1), fault("kill", "async"), pyramid("STATEMENT"), power("relaxed")]
    if effort == "smoke":
        return few
    few += [spread(0), spread(4), spread(1, 16), case("divided", replicas=0, **loaded)]
    few += [pyramid("ROW"), power("async")]
    few += [fault("slow", "async"), fault("slow", "semi-sync"), fault("cut", "async")]
    if effort == "quick":
        return few
    few += [spread(2), spread(1, 4), case(spreading.PROXIED, replicas=4, **loaded)]
    few += [pyramid("MIXED"), power("log later")]
    few += [fault("slow", commit) for commit in ("relaxed", "both", "short")]
    few += [fault("kill", "semi-sync"), fault("cut", "semi-sync"), fault("stop", "async")]
    few += [fault("kill", "async", "mha"), fault("cut", "async", "mha")]
    few += [fault("kill", "async", "hand"), case("schema change", moved_by="hand", **faulty)]
    return few


def keep(parameters: ReplicationParameters, arm: Arm) -> bool:
    """Return whether an arm is measured: fewer where there is less time."""
    levels = {name: level for name, level in vars(arm).items() if name != "server"}
    if arm.system == "power" and arm.device == HOST:
        return False  # It is not ours to cut.
    return levels in cases(parameters.effort_name, tuple(parameters.devices))


def settings(parameters: ReplicationParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm, which all its servers have."""
    return {
        **oltp.settings(POOL_RATIO, "read_write", parameters.table_rows, facts),
        **COMMITS[arm.commit],
        **replication.appliers(arm.appliers),
        "binlog_format": arm.binlog,
    }


SYSTEMS = {
    "spread": spreading.spread,
    spreading.PROXIED: spreading.spread,
    "divided": spreading.divided,
    "failover": failing.trial,
    "power": failing.power,
    "schema change": failing.schema_change,
    "pyramid": crossing.pyramid,
}


def lacks(build: Build, parameters: ReplicationParameters) -> dict[str, dict[str, str]]:
    """Return the levels that a build cannot have."""
    found = {}
    if not replication.has_semi_sync(build):
        why = f"{build.id} has no semi-synchronous replication: its plugins did not come with it"
        found["commit"] = dict.fromkeys(("semi-sync", "both", "short"), why)
    across = (
        "its manager moves the address by programs of one machine" if parameters.nodes else None
    )
    if no_mha := across or failover.why_no_mha(build):
        found["moved_by"] = {"mha": no_mha}
    return found


def trial(bench: Bench, arm: Arm) -> Iterator[Observation]:
    """Run what the arm's system asks for."""
    asked = settings(bench.parameters, arm, bench.dataset_facts)
    yield from SYSTEMS[arm.system](bench, arm, asked)


STUDY = Study(
    title="Replication: scale out, fail over, divide",
    question="What does each replica add, and what does each setting of durability cost and lose?",
    parameters=ReplicationParameters,
    factors=lambda parameters: {
        "system": list(SYSTEMS),
        "replicas": [0, 1, 2, 4],
        "appliers": [1, 4, 16],
        "commit": list(COMMITS),
        "fault": ["none", *FAULTS, "power"],
        "binlog": ["ROW", "STATEMENT", "MIXED"],
        "moved_by": ["nobody", *get_args(failover.MovedBy)],
        "device": parameters.devices,
    },
    keep=keep,
    control={"system": "spread", "replicas": 1, "appliers": 1},
    within={
        "write_share": spreading.WRITE_SHARES,
        "statement": list(range(1, len(crossing.STATEMENTS) + 1)),
    },
    main=("write_share",),
    metrics={
        **replicated_windows.METRICS,
        **failover_bench.METRICS,
        **crossing.METRICS,
    },
    compared={"statements_per_s": ("write_share",), "commits_per_s": ()},
    blocks=ByEffort(Blocks(1, 1), Blocks(2, 2), Blocks(3, 30)),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    # Several servers share the device: what is foreign to one is another's.
    checks=(*(name for name in USUAL if name != "foreign disk traffic"), "device as its profile",
            "load without errors", "witness as told"),
    own_checks={"witness as told": Check(acknowledged.as_told)},
    variables={
        "system": (), "replicas": (), "fault": (), "moved_by": (), "device": (),
        "appliers": {"slave_parallel_workers", "replica_parallel_workers"},
        "commit": {name.removeprefix("loose_") for name in COMMITS["short"]},
        "binlog": {"binlog_format"},
    },
    needed_variables=("innodb_buffer_pool_instances", "innodb_flush_method"),
    tools=("arping", "fio", "haproxy", "keepalived", "mkfs.xfs", "sysbench"),
    # Of a device of 200 operations a second a moment says little.
    calibration_s=ByScale(2.0, 3.0, 10.0),
    window_s=spreading.WINDOW_S,
    copies=1 + MOST_NODES,
    beside_bytes=lambda parameters: MOST_NODES * (
        SERVER_OVERHEAD_BYTES + int(POOL_RATIO * parameters.table_rows * oltp.BYTES_PER_ROW)
    ),
    refuses=replication.why_impossible,
    lacks=lacks,
    nodes=lambda parameters: parameters.nodes,
    impossible=network.why_impossible,
)  # fmt: skip
