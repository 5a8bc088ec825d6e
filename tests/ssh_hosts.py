"""Hosts that answer over ssh: network namespaces with an sshd and a disk of their own each.

sshd is Debian's, unpacked beside the tests and never installed: nothing listens on this machine.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from innolab.hosts.bundle import FOLDER
from innolab.hosts.network import Network

_PACKAGES = ("openssh-server", "libwrap0", "libnsl2", "libtirpc3")
# What is a host's own: its name, users, folder of what is brought to it, and root's keys.
_AS_A_HOST = """
hostname "$1"
mount --bind "$2/brought" "$3"
cp /etc/passwd "$2/passwd"
grep -q ^sshd: "$2/passwd" || echo 'sshd:x:33333:65534::/run/sshd:/usr/sbin/nologin' >> "$2/passwd"
mount --bind "$2/passwd" /etc/passwd
mkdir -p /run/sshd
exec "$4/usr/sbin/sshd" -D -e -f "$2/sshd_config"
"""
_SETTINGS = """
ListenAddress {address}
HostKey {place}/host_key
AuthorizedKeysFile {key}.pub
AuthenticationMethods publickey
StrictModes no
PidFile none
UsePAM no
"""


class Hosts(NamedTuple):
    """A network with hosts that answer over ssh, and a place `here` from which they are reached.

    Attributes
    ----------
    inventory : of the hosts, in the group database_hosts
    here : words before a command that runs in the network as this machine does
    inside : by name, words before a command that runs as a host's own
    """

    inventory: Path
    here: list[str]
    inside: dict[str, list[str]]


@contextmanager
def ssh_hosts(folder: Path, *names: str, settings: str = "") -> Iterator[Hosts]:
    """Have hosts while the block runs, with further lines of their sshd's settings."""
    sshd = _unpacked(folder / "sshd")
    key = folder / "key"
    _keygen(key)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        network = stack.enter_context(Network(["here", *names]))
        lines = ["database_hosts:", "  vars:", "    ansible_user: root",
                 f"    ansible_ssh_private_key_file: {key}",
                 "    ansible_ssh_common_args: -o StrictHostKeyChecking=no "
                 "-o UserKnownHostsFile=/dev/null",
                 "  hosts:"]  # fmt: skip
        inside = {}
        for name in names:
            node = network.nodes[name]
            place = folder / name
            (place / "brought").mkdir(parents=True)
            _keygen(place / "host_key")
            common = _SETTINGS.format(address=node.address, place=place, key=key)
            (place / "sshd_config").write_text(f"{common}{settings}\n")
            words = [*node.inside, "unshare", "--mount", "--uts", "sh", "-euc"]
            words += [_AS_A_HOST, "sh", name, str(place), str(FOLDER), str(sshd)]
            env = {**os.environ, "LD_LIBRARY_PATH": f"{sshd}/usr/lib/x86_64-linux-gnu"}
            with (place / "sshd.log").open("wb") as log:
                daemon = subprocess.Popen(words, env=env, stdout=log, stderr=log)
            stack.callback(daemon.wait)
            stack.callback(daemon.kill)
            inside[name] = ["nsenter", f"--target={daemon.pid}", "--net", "--mount", "--uts"]
            _until_listening(place / "sshd.log", daemon)
            lines += [f"    {name}:", f"      ansible_host: {node.address}"]
        inventory = folder / "hosts.yml"
        inventory.write_text("\n".join(lines) + "\n")
        yield Hosts(inventory, network.nodes["here"].inside, inside)


def processes(of: str) -> list[str]:
    """Return what runs with some words in its command, such as a host's own folder."""
    found = subprocess.run(["pgrep", "-af", of], capture_output=True, text=True)
    return [line for line in found.stdout.splitlines() if "pgrep" not in line]


def until(true: Any, limit_s: float) -> None:
    """Wait until something is so; fail with what runs on the hosts where it does not come."""
    began = time.monotonic()
    while not true():
        if time.monotonic() > began + limit_s:
            left = processes(str(FOLDER))
            pytest.fail(f"it did not come about in {limit_s:.0f} s; of ours run: {left}")
        time.sleep(0.2)


def _unpacked(place: Path) -> Path:
    place.mkdir(parents=True)
    words = ["apt-get", "-qq", "download", *_PACKAGES]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True)
    if done.returncode:
        # On a new machine the lists of packages may be missing.
        subprocess.run(["apt-get", "-qq", "update"], capture_output=True)
        done = subprocess.run(words, cwd=place, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"Debian's sshd cannot be had: {done.stderr.strip()[-300:]}")
    for package in place.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, place], check=True)
        package.unlink()
    return place


def _keygen(key: Path) -> None:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(words, check=True)


def _until_listening(log: Path, daemon: "subprocess.Popen[bytes]") -> None:
    for _ in range(100):
        if "Server listening" in log.read_text():
            return
        if daemon.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"sshd does not start: {log.read_text()[-300:]}")
