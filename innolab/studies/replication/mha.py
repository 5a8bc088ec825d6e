"""MHA's manager on a node of a network: it watches a source and makes a replica the next one.

It reaches servers over the network alone. Where these have global transaction ids it needs ssh for
nothing but to ask whether the failed host is reachable, and goes on where it is not. It ends when
it has done its work once.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import jinja2

from innolab.base import children
from innolab.base.errors import InnolabError
from innolab.base.waiting import await_that
from innolab.hosts.base import Process
from innolab.hosts.network import Node
from innolab.studies.replication import move_address

PROGRAM = "masterha_manager"
_TEMPLATE = Path(__file__).with_name("mha.cnf.j2")
_WATCHES_WITHIN_S = 20.0
# What its log says once all has been checked.
_WATCHES = "waiting until MySQL doesn't respond"
_ERROR = "[error]"
# A process of its own, and all that this starts, end when innolab does.
TIED = ("setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child")


def started(
    node: Node, servers: Sequence[Node], port: int, user: str, replica_user: str, folder: Path
) -> Process:
    """Start a manager on a node, and return it when it watches.

    Parameters
    ----------
    servers : the nodes of all servers, the source among them
    port : of all servers
    user, replica_user : accounts without a password: one that may do all, and that of replicas
    folder : below which one is made for its settings, logs and work

    Raises
    ------
    InnolabError
        Where it does not come to watch; quotes its log.
    """
    work = folder / "mha"
    node.fresh_folder(work)
    nodes, settings, log = work / "nodes.json", work / "mha.cnf", work / "manager.log"
    pids = {"manager": node.pid, **{server.address: server.pid for server in servers}}
    node.write(nodes, json.dumps(pids))
    template = jinja2.Template(_TEMPLATE.read_text(), undefined=jinja2.StrictUndefined)
    text = template.render(
        folder=work,
        log=log,
        user=user,
        replica_user=replica_user,
        port=port,
        move=" ".join(children.python(move_address.__name__, str(nodes))),
        addresses=[server.address for server in servers],
    )
    node.write(settings, text)
    words = [*TIED, node.tool(PROGRAM), f"--conf={settings}"]
    manager = node.start(words, env={}, log=work / "said.log")

    def watches() -> bool:
        if manager.poll() is not None:
            raise InnolabError("MHA's manager ended before it watched the source.")
        [said] = node.peek(log)
        return _WATCHES in (said or "")

    try:
        await_that(watches, _WATCHES_WITHIN_S, "MHA's manager did not come to watch the source")
    except InnolabError as error:
        manager.kill()
        manager.wait()
        raise InnolabError(f"{error} It said: {_complaints(node, work)}") from None
    return manager


def _complaints(node: Node, work: Path) -> str:
    """Return the last errors that a manager has logged, else its last words."""
    texts = node.peek(work / "said.log", work / "manager.log")
    lines = [line for text in texts for line in (text or "").splitlines() if line.strip()]
    return " ".join(([line for line in lines if _ERROR in line] or lines)[-3:])[-600:] or "nothing"
