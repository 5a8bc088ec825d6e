"""What keepalived and MHA run on the nodes of a topology, each time as a new process.

    python -m innolab.studies.replication.programs alive SOCKET
    python -m innolab.studies.replication.programs promote VERSION FOLDER
    python -m innolab.studies.replication.programs move NODES --command=start \\
        --new_master_ip=ADDRESS ...

Each imports only what it needs: `alive` is started on every node each second.
"""

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

_ANSWERS_WITHIN_S = 0.8
# To apply what was received; the address has moved already, and clients wait.
_PROMOTED_WITHIN_S = 30


def alive(path: str) -> int:
    """Return 0 if a MySQL server on a socket greets, else 1.

    A server that was stopped (SIGSTOP) accepts connections and never greets.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWERS_WITHIN_S)
        try:
            connection.connect(path)
            return 0 if connection.recv(5) else 1
        except OSError:
            return 1


def promote(version: str, folder: str) -> None:
    """Make the replica with its socket in a folder a source; the first source already is one.

    keepalived starts it on the node that has taken the address.
    """
    from innolab.mysql import replication
    from innolab.mysql.builds import Build
    from innolab.mysql.server import Server

    # Asked, not started: the version says in which words.
    build = Build("the replica", version, (), {}, None, "", "", "")
    server = Server(build, Path(folder), Path(folder), Path(folder), {})
    [(is_replica,)] = server.query("SELECT @@GLOBAL.read_only")
    if is_replica:
        replication.promote(server, _PROMOTED_WITHIN_S)


def move(nodes: str, *options: str) -> None:
    """Move the address as MHA's manager asks: `stop` takes it away, `start` gives it.

    The manager names nodes by their addresses; where hosts are machines, such a program goes to
    them by ssh. A node whose link is cut is not reached, and keeps the address.

    Parameters
    ----------
    nodes : a file of JSON with a process in each node's network by the node's address, and with
        `manager`, one in the manager's own
    """
    from innolab.hosts.network import VIRTUAL, Node

    pids: dict[str, int] = json.loads(Path(nodes).read_text())
    asked = dict(option.split("=", 1) for option in options if "=" in option)
    match asked["--command"]:
        case "stop" | "stopssh":
            old = asked["--orig_master_ip"]
            if Node("the manager", "", pids["manager"]).reaches(old):
                Node("the old source", old, pids[old]).give_up(VIRTUAL)
        case "start":
            new = asked["--new_master_ip"]
            Node("the new source", new, pids[new]).take(VIRTUAL)


if __name__ == "__main__":
    _programs: dict[str, Callable[..., int | None]] = {
        "alive": alive, "promote": promote, "move": move,
    }  # fmt: skip
    sys.exit(_programs[sys.argv[1]](*sys.argv[2:]))
