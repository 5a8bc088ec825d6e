"""Ask whether a MySQL server answers on a socket; exit status 0 where it greets within a second.

keepalived starts it on every node each second, so it needs little but Python itself. A server that
was stopped (SIGSTOP) accepts connections and never greets.

    python -m innolab.studies.replication.is_alive SOCKET
"""

import socket
import sys

_LIMIT_S = 0.8


def main(path: str) -> int:
    """Return 0 where a server greets, else 1."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_LIMIT_S)
        try:
            asked.connect(path)
            return 0 if asked.recv(5) else 1
        except OSError:
            return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
