"""A load whose reads go to replicas and whose writes go to their source."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from innolab.loads import sysbench
from innolab.loads.sysbench import Load
from innolab.mysql.server import Server

_SCRIPT = Path(__file__).with_name("split.lua")


@dataclass(frozen=True)
class Split:
    """What is asked of a source and its replicas.

    Attributes
    ----------
    rows : the size of the one table
    threads : of the load; each waits for the end of its statement before it sends the next
    write_share : the share of the statements that write
    """

    rows: int
    threads: int
    write_share: float
    seed: int

    def next(self) -> "Split":
        """Return the same load with the seed of its next run, which draws other ids."""
        return replace(self, seed=self.seed + 1)


def run(source: Server, replicas: Sequence[Server], load: Split, duration_s: int) -> Load:
    """Run a load for some seconds and return what it gave.

    Raises
    ------
    InnolabError
        Where sysbench or the source dies, or refuses a connection; quotes the one that did.
    """
    words = [
        *sysbench.command([source, *replicas], sysbench.copied(source, _SCRIPT), load.threads,
                          load.seed),
        f"--table_size={load.rows}",
        f"--replicas={len(replicas)}",
        f"--write_share={load.write_share}",
        *sysbench.timed(duration_s),
    ]  # fmt: skip
    return sysbench.load(source, words, duration_s)
