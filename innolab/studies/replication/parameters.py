"""What replication is measured on: the parameters, the arms of each effort, and their settings."""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import model_validator

from innolab.bench import oltp
from innolab.mysql import replication
from innolab.record.run import Level
from innolab.storage.profiles import HOST, limited
from innolab.studies.parameters import (
    ByScale,
    Devices,
    Parameters,
    Threads,
    one_of,
    repeats,
)
from innolab.studies.replication.spreading import PROXIED
from innolab.studies.study import SERVER_OVERHEAD_BYTES, Arm, Facts

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
    few += [spread(2), spread(1, 4), case(PROXIED, replicas=4, **loaded)]
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


def extra_bytes(parameters: ReplicationParameters) -> int:
    """Return the memory that all servers of a topology need, besides the pool of one."""
    pool = int(POOL_RATIO * parameters.table_rows * oltp.BYTES_PER_ROW)
    return MOST_NODES * (SERVER_OVERHEAD_BYTES + pool)


def settings(parameters: ReplicationParameters, arm: Arm, facts: Facts) -> dict[str, Any]:
    """Return the server variables of an arm, which all its servers have."""
    return {
        **oltp.settings(POOL_RATIO, "read_write", parameters.table_rows, facts),
        **COMMITS[arm.commit],
        **replication.appliers(arm.appliers),
        "binlog_format": arm.binlog,
    }
