"""Move the virtual address to the node of a new source: what MHA's manager runs.

The manager names nodes by their addresses; where hosts are machines, such a program goes to them by
ssh. A node whose link is cut is not reached, and keeps the address.

    python -m innolab.studies.replication.move_address NODES --command=start \\
        --new_master_ip=ADDRESS ...

NODES is a file of JSON: a process in each node's network, by the node's address, and `manager`, one
in the manager's own.
"""

import json
import sys
from pathlib import Path

from innolab.hosts.network import VIRTUAL, Node


def main(nodes: str, *words: str) -> None:
    """Do what the manager asks: `stop` takes the address away, `start` gives it, `status` asks."""
    pids: dict[str, int] = json.loads(Path(nodes).read_text())
    said = dict(word.split("=", 1) for word in words if "=" in word)
    match said["--command"]:
        case "stop" | "stopssh":
            old = said["--orig_master_ip"]
            if Node("the manager", "", pids["manager"]).reaches(old):
                Node("the old source", old, pids[old]).give_up(VIRTUAL)
        case "start":
            new = said["--new_master_ip"]
            Node("the new source", new, pids[new]).take(VIRTUAL)


if __name__ == "__main__":
    main(*sys.argv[1:])
