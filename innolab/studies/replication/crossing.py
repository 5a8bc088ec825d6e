"""Statements that cross databases, under a replica that applies one database alone.

A pyramid: `top` holds what all services share, `web` follows it with `replicate-do-db=common` and
is the source of its own service, `leaf` follows `web`. Whether a change arrives depends on how it
is written down: as a statement, by the database that was the default then; as rows, by their own.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from innolab.loads import filtered, replicated
from innolab.loads.filtered import OWN, SHARED, Statement
from innolab.loads.trial import Bench
from innolab.mysql import topology
from innolab.record.run import Observation
from innolab.studies.replication.spreading import WINDOW_S
from innolab.studies.study import Arm

STATEMENTS = (
    Statement(SHARED, "UPDATE common.t{n} SET v = 99 WHERE id = 1"),
    Statement(OWN, "UPDATE common.t{n} SET v = 99 WHERE id = 1"),
    Statement(OWN, "UPDATE shop.t{n} SET v = 99 WHERE id = 1"),
    Statement(SHARED, "UPDATE shop.t{n} SET v = 99 WHERE id = 1"),
    Statement(OWN, "INSERT INTO common.t{n} SELECT id + 100, v FROM shop.t{n}"),
    Statement(SHARED, "INSERT INTO shop.t{n} SELECT id + 100, v FROM common.t{n}"),
    Statement(OWN, "UPDATE common.t{n}, shop.t{n} SET common.t{n}.v = 7, shop.t{n}.v = 7"),
    Statement(OWN, "CREATE TABLE common.new{n} (id INT PRIMARY KEY)", True),
    Statement(SHARED, "CREATE TABLE shop.new{n} (id INT PRIMARY KEY)", True),
    # Its row is below already, written there by the service itself.
    Statement(SHARED, "INSERT INTO common.t{n} VALUES (60, 60)"),
)
SHAPE = topology.pyramid(SHARED)


def pyramid(bench: Bench, _arm: Arm, asked: dict[str, Any]) -> Iterator[Observation]:
    """Load the top with writes that are none of web's; then try statements that cross databases.

    What is below is compared with what should be there.
    """
    with bench.topology(SHAPE, asked) as (raised, _):
        top, web, leaf = raised.servers.values()
        load = replace(replicated.warmed(bench, raised, SHARED), write_share=1.0)
        window_s = WINDOW_S.of(bench.parameters)
        found = replicated.window(bench, raised, load, window_s, raised.replicas, schema=SHARED)
        yield {"write_share": 1.0, **found}
        with bench.clock.stage("warm-up"):
            filtered.prepare(top, [web, leaf], len(STATEMENTS))
            web.query(f"INSERT INTO {SHARED}.t{len(STATEMENTS)} VALUES (60, 0)")
        # The last statement stops a replica, which complains.
        bench.note_error_logs([top, web, leaf])
        tried = []
        with bench.clock.stage("measured passes"):
            for number, statement in enumerate(STATEMENTS, 1):
                tried.append(filtered.tried(top, web, number, statement))
                yield {"statement": number, **tried[-1]}
        filtered.passed(web, leaf)
        yield {
            **filtered.summed(STATEMENTS[:-1], tried[:-1]),
            "conflict_stops": tried[-1]["stopped"],
            "leaf_equal": int(filtered.checksums(leaf) == filtered.checksums(web)),
        }
