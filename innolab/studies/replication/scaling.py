"""What a source and its replicas give together, by what each of them can do alone.

Every replica applies every write, so reads share N replicas and writes do not. Of a replica's time
a share goes into reads and one into applying; the busiest node is the bound. Pure functions.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scaling:
    """What one node can do of one kind of work alone, in statements a second.

    Attributes
    ----------
    reads_per_s : a node that only reads
    writes_per_s : a source that only writes
    applies_per_s : a replica that only applies
    """

    reads_per_s: float
    writes_per_s: float
    applies_per_s: float

    def statements_per_s(self, replicas: int, write_share: float) -> float:
        """Return what all nodes give together at a share of statements that write.

        >>> nodes = Scaling(100.0, 50.0, 200.0)
        >>> nodes.statements_per_s(4, 0.0), nodes.statements_per_s(4, 1.0)
        (400.0, 50.0)
        >>> round(nodes.statements_per_s(0, 0.5), 1)
        66.7
        """
        reads, writes = 1 - write_share, write_share
        at_source = writes / self.writes_per_s
        if not replicas:
            return 1 / (reads / self.reads_per_s + at_source)
        at_replica = reads / (replicas * self.reads_per_s) + writes / self.applies_per_s
        return 1 / max(at_source, at_replica)


def fitted(reads: float, writes: float, half: float) -> Scaling:
    """Return the constants from three measured rates.

    Parameters
    ----------
    reads : statements a second of one replica that only reads
    writes : of a source without replicas that only writes
    half : of one replica if half of the statements write; if the source is the bound there,
        applying costs nothing that could be seen

    >>> round(fitted(100.0, 50.0, 80.0).applies_per_s, 2)
    66.67
    """
    left = 2 / half - 1 / reads
    return Scaling(reads, writes, 1 / left if left > 0 else math.inf)
