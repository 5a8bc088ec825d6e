"""What became of commits and of servers after a fault: their metrics, and what bounds these."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from innolab.analysis.bounds import Bound, Record, all_exactly, exactly, metrics
from innolab.bench.trial import Bench
from innolab.hosts.network import VIRTUAL
from innolab.mysql import replication
from innolab.mysql.server import Server, ServerError
from innolab.mysql.topology import Topology
from innolab.studies.replication import acknowledged, witness
from innolab.studies.replication.failover import Left
from innolab.studies.replication.witness import WRITERS, Witness

_EQUAL_WITHIN_S = 20.0


def outcome(
    bench: Bench, topology: Topology, seen: Witness, left: Left, broken_s: float
) -> dict[str, float]:
    """Return what became of commits and servers, as METRICS; records what they follow from.

    Parameters
    ----------
    broken_s : when the source was broken, by the clock of the witness
    """
    with bench.clock.stage("warm-up"):
        fate = fates(bench, topology, seen, (left.first, left.last), broken_s)
        moved = {**left.facts(), **_rejoining(topology, left)}
    bench.note("moved", moved)
    return fate | _of_servers(moved, topology.source_name)


def fates(
    bench: Bench, topology: Topology, seen: Witness, sources: tuple[str, str], broken_s: float
) -> dict[str, float]:
    """Return what became of commits, as METRICS; records what they follow from.

    Parameters
    ----------
    sources : the names of who took over, and of who has the address in the end
    broken_s : when the source was broken, by the clock of the witness
    """
    first, last = (witness.present(topology.servers[name]) for name in sources)
    history = seen.history()
    parted = acknowledged.parted(history, broken_s, first, last)
    bench.note("fate", parted.facts())
    bench.note("witness", {"rate": seen.rated, **acknowledged.pace(history, broken_s)})
    return parted.metrics()


def _rejoining(raised: Topology, left: Left) -> dict[str, dict[str, int] | dict[str, bool]]:
    """Let all servers follow the last source, and return what became of them, by their names.

    `errant` has how many transactions each has and the last source has not: with any it can never
    follow, and has to be made again. `equal` says whether each other one came to have its rows.
    """
    source, last = raised.servers[left.last], left.last
    # If two nodes hold the address, either may answer.
    address = VIRTUAL if len(left.holders) == 1 else raised.nodes[last].address
    ids = replication.executed(source)
    errant = {
        name: replication.count(replication.missing(source, replication.executed(one), ids))
        for name, one in raised.servers.items()
    }
    equal = {
        name: not errant[name] and rejoined(source, server, address)
        for name, server in raised.servers.items()
        if name != last
    }
    return {"errant": errant, "equal": equal}


def rejoined(source: Server, other: Server, address: str = VIRTUAL) -> bool:
    """Let a server follow the source at its address; return whether it comes to its rows."""
    other.query("SET GLOBAL read_only = ON")
    replication.follow_instead(other, address)
    try:
        has_all = replication.wait_for(other, replication.executed(source), _EQUAL_WITHIN_S)
    except ServerError:
        return False
    return has_all and replication.checksums(other) == replication.checksums(source)


def _of_servers(moved: Mapping[str, Any], source: str) -> dict[str, float]:
    """Return the metrics of a move, by what a record says of it and the name of the first source.

    If the old source is the last one again, there is nothing to say of it.
    """
    others = {name: same for name, same in moved["equal"].items() if name != source}
    values: dict[str, float] = {
        "writable": len(moved["writable"]),
        "holders": len(moved["at_the_end"]),
        "errant": max(moved["errant"].values()),
        "others_equal": int(all(others.values())),
    }
    return values | ({"old_equal": int(moved["equal"][source])} if source in moved["equal"] else {})


def _by_witness(record: Record) -> Iterator[Bound]:
    if (noted := record.run.conditions.get("witness")) is None:
        return
    rate = noted["rate"]
    yield exactly({}, "commits_per_s", rate["commits"] / rate["seconds"])
    from_s = rate["from_s"] - noted["broken_s"]
    within = acknowledged.between(noted["per_bin"], from_s, from_s + rate["seconds"])
    yield Bound({}, "commits_per_s", *(count / rate["seconds"] for count in within))
    before, _ = acknowledged.between(noted["per_bin"], -math.inf, 0.0)
    yield Bound({}, "acknowledged", before, before + WRITERS)
    yield exactly({}, "gap_s", noted["gap_to_s"] - noted["gap_from_s"])
    yield Bound({}, "gap_s", *acknowledged.longest_gap(noted["per_bin"]))


def _by_fate(record: Record) -> Iterator[Bound]:
    fate = record.run.conditions.get("fate", {})
    for metric in acknowledged.COUNTED:
        if metric in fate:
            yield exactly({}, metric, sum(fate[metric].values()))


def _by_servers(record: Record) -> Iterator[Bound]:
    if (moved := record.run.conditions.get("moved")) is None:
        return
    yield exactly({}, "writable", len(moved["writable"]))
    yield exactly({}, "holders", len(moved["at_the_end"]))
    if "equal" in moved:
        source = record.run.conditions["topology"]["servers"][0]
        yield from all_exactly({}, _of_servers(moved, source))


METRICS = {
    **metrics({"commits_per_s": "1/s", "acknowledged": "commits"}, _by_witness),
    **metrics(dict.fromkeys(acknowledged.COUNTED, "commits"), _by_fate),
    **metrics({"gap_s": "s"}, _by_witness),
    **metrics(
        {
            "writable": "servers",
            "holders": "servers",
            "errant": "transactions",
            "others_equal": "share of the faults after which the others are equal",
            "old_equal": "share of the faults after which the old source can follow",
        },
        _by_servers,
    ),
}
