"""Make the replica behind a socket a source: what runs where a virtual address has come to.

keepalived starts it when its node takes the address. On a server that takes writes already, as the
first source does, nothing is done.

    python -m innolab.studies.replication.promote VERSION FOLDER-OF-THE-SOCKET
"""

import sys
from pathlib import Path

from innolab.mysql import replication
from innolab.mysql.builds import Build
from innolab.mysql.server import Server

# To apply what was received; the address has moved already, and clients wait.
_LIMIT_S = 30


def main(version: str, folder: str) -> None:
    """Promote the server of a version whose socket lies in a folder."""
    # Asked, not started: the version says in which words.
    build = Build("the replica", version, (), {}, None, "", "", "")
    server = Server(build, Path(folder), Path(folder), Path(folder), {})
    [(is_replica,)] = server.query("SELECT @@GLOBAL.read_only")
    if is_replica:
        replication.promote(server, _LIMIT_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
