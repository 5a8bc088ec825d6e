"""keepalived on the nodes of a network: the address of the source moves by itself (VRRP).

A node whose server does not answer is no candidate. One that hears of no holder makes itself one,
so two nodes that do not hear each other both hold the address; once they do, the one of higher
priority keeps it, which may be the old source.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

import jinja2

from innolab.hosts.base import Process
from innolab.hosts.network import PORT, VIRTUAL, Node

_TEMPLATE = Path(__file__).with_name("keepalived.conf.j2")


def started(
    node: Node, priority: int, answers: Sequence[str], promote: Sequence[str], folder: Path
) -> Process:
    """Start a daemon on a node; it ends with innolab.

    Parameters
    ----------
    priority : the node with the highest is the next to hold the address, as long as its server
        answers; 1 to 254
    answers : the command whose status says whether the node's server answers
    promote : the command that runs when the node has taken the address
    folder : of its settings and log
    """
    settings = folder / f"keepalived-{node.name}.conf"
    template = jinja2.Template(_TEMPLATE.read_text(), undefined=jinja2.StrictUndefined)
    text = template.render(
        name=node.name,
        interface=PORT,
        address=VIRTUAL,
        priority=priority,
        answers=_script(node, folder / f"answers-{node.name}", answers),
        promote=_script(node, folder / f"promote-{node.name}", promote),
    )
    node.write(settings, text)
    return node.start(
        [
            *("setpriv", "--pdeathsig", "KILL", node.tool("keepalived")),
            *("--dont-fork", "--log-console", "--log-detail", "--vrrp"),
            f"--use-file={settings}",
            f"--pid={settings.with_suffix('.pid')}",
            f"--vrrp_pid={settings.with_suffix('.vrrp.pid')}",
        ],
        env={},
        log=settings.with_suffix(".log"),
    )


def _script(node: Node, path: Path, words: Sequence[str]) -> Path:
    """Write a command as a script: keepalived follows links, and a venv's python is one.

    Followed, it is the python outside the venv, which has no innolab. What a script says is heard
    by nobody else, so it has a log.
    """
    node.write(path, f"#!/bin/sh\nexec {shlex.join(words)} >>{path}.log 2>&1\n")
    node.must(["chmod", "0700", path], what="Making a script")
    return path
