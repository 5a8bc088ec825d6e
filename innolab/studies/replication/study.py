"""Replication: scale out, fail over, divide (seed S1, part 3; study E)."""

from collections.abc import Iterator
from typing import get_args

from innolab.analysis.checks import USUAL
from innolab.analysis.evidence import Check
from innolab.bench import oltp
from innolab.bench.trial import Bench
from innolab.hosts import network
from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.record.plan import Blocks
from innolab.record.run import Observation
from innolab.studies.kind import Kind, named
from innolab.studies.parameters import ByEffort, ByScale
from innolab.studies.replication import (
    acknowledged,
    aftermath,
    crossing,
    failing,
    failover,
    spreading,
    windows,
)
from innolab.studies.replication.parameters import (
    COMMITS,
    MOST_NODES,
    ReplicationParameters,
    extra_bytes,
    keep,
    settings,
)
from innolab.studies.study import Arm, Demands, Design, Study

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
    reasons = {}
    if not replication.has_semi_sync(build):
        why = f"{build.id} has no semi-synchronous replication: its plugins did not come with it"
        reasons["commit"] = dict.fromkeys(("semi-sync", "both", "short"), why)
    if parameters.nodes:
        reasons["moved_by"] = {"mha": "its manager moves the address by programs of one machine"}
    elif no_mha := failover.why_no_mha(build):
        reasons["moved_by"] = {"mha": no_mha}
    return reasons


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
        "fault": ["none", *failing.FAULTS, "power"],
        "binlog": ["ROW", "STATEMENT", "MIXED"],
        "moved_by": ["nobody", *get_args(failover.MovedBy)],
        "device": parameters.devices,
    },
    keep=keep,
    kind=Kind(
        metrics={**windows.METRICS, **aftermath.METRICS, **crossing.METRICS},
        checks={
            # Several servers share the device: what is foreign to one is another's.
            **named(*(name for name in USUAL if name != "foreign disk traffic")),
            **named("device as its profile", "load without errors"),
            "witness as told": Check(acknowledged.as_told),
        },
        within={
            "write_share": spreading.WRITE_SHARES,
            "statement": list(range(1, len(crossing.STATEMENTS) + 1)),
        },
        main=("write_share",),
        compared={"statements_per_s": ("write_share",), "commits_per_s": ()},
        variables={
            "appliers": {"slave_parallel_workers", "replica_parallel_workers"},
            "commit": {name.removeprefix("loose_") for name in COMMITS["short"]},
            "binlog": {"binlog_format"},
        },
        window_s=spreading.WINDOW_S,
        # Of a device of 200 operations a second a moment says little.
        calibration_s=ByScale(2.0, 3.0, 10.0),
    ),
    dataset=lambda parameters: oltp.dataset(parameters.table_rows),
    settings=settings,
    trial=trial,
    design=Design(
        blocks=ByEffort(Blocks(1, 1), Blocks(2, 2), Blocks(3, 30)),
        control={"system": "spread", "replicas": 1, "appliers": 1},
    ),
    demands=Demands(
        tools=("arping", "fio", "haproxy", "keepalived", "mkfs.xfs", "sysbench"),
        variables=("innodb_flush_method",),
        copies=1 + MOST_NODES,
        extra_bytes=extra_bytes,
        nodes=lambda parameters: parameters.nodes,
        refuses=replication.why_impossible,
        lacks=lacks,
        impossible=network.why_impossible,
    ),
)
