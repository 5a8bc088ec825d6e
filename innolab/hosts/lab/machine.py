"""What a machine needs to hold the lab: its kind, programs, room, and Debian's archive."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from innolab.base.errors import InnolabError
from innolab.hosts import machine, observe
from innolab.hosts.local import HERE

# Program: Debian package.
_PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
# What lets an ordinary user own files on behalf of the guest's users.
_USER_PROGRAMS = {"newuidmap": "uidmap"}
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TARGET_FIELDS = ["CREATED_BY", "COMPONENT", "RELEASE", "REPO_URI"]
# What QEMU itself takes besides the guest's memory: translated code above all.
_QEMU_BYTES = 512 * 2**20
_LEAST_GUEST_BYTES = 512 * 2**20


class LabError(InnolabError):
    """Why the lab cannot be raised or taken down, for the user."""


def run(
    *words: str | Path,
    advice: str = "",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limit_s: float | None = None,
) -> str:
    """Run a program and return what it wrote; on failure raise with the end of its complaint."""
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=env, timeout=limit_s)
    if done.returncode:
        complaint = " ".join(done.stderr.split())[-600:]
        raise LabError(f"{words[0]} failed ({done.returncode}): {complaint} {advice}".strip())
    return done.stdout


def require_kind() -> None:
    """Raise if QEMU could not run this guest's code itself or share processors with it."""
    found = f"{platform.system()} on {platform.machine()}"
    if found != "Linux on x86_64":
        raise LabError(
            f"the lab needs Linux on x86_64, this is {found}; raise it on such a machine"
        )


def missing_packages() -> list[str]:
    """Return the Debian packages of the programs that are not on the PATH."""
    needed = _PROGRAMS if os.geteuid() == 0 else _PROGRAMS | _USER_PROGRAMS
    return sorted({package for name, package in needed.items() if not shutil.which(name)})


def require_installable(packages: list[str]) -> None:
    """Raise if packages are missing that this user cannot install here."""
    if packages and (os.geteuid() != 0 or not shutil.which("apt-get")):
        asked = f"sudo apt-get install --no-install-recommends {' '.join(packages)}"
        missing = f"this machine has no {', '.join(packages)}"
        raise LabError(f"{missing}; on Debian install with: {asked}")


def install(packages: list[str]) -> None:
    """Install Debian packages; nothing if there are none to install."""
    if not packages:
        return
    apt = ["apt-get", "-qq", "-o", "Acquire::Retries=1"]
    # A list that cannot be fetched matters only if a package then is not available either.
    subprocess.run([*apt, "update"], capture_output=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    advice = f"; check the network and apt's sources, or install {' '.join(packages)} yourself"
    words = [*apt, "install", "--yes", "--no-install-recommends", *packages]
    run(*words, advice=advice, env=quiet)


def require_memory(guest_bytes: int) -> None:
    """Raise if the guest would not start in its memory, or this machine would swap or kill."""
    if guest_bytes < _LEAST_GUEST_BYTES:
        few = f"a guest of {guest_bytes} bytes would run out of memory while it starts"
        raise LabError(f"{few}; give it {_LEAST_GUEST_BYTES} or more as memory_bytes")
    free = observe.memory_bytes(HERE)["available"]
    if free < guest_bytes + _QEMU_BYTES:
        wanted = f"{guest_bytes} bytes of memory and QEMU {_QEMU_BYTES} more"
        raise LabError(
            f"the guest would take {wanted}, but only {free} are available here; "
            "ask for less memory_bytes, or end what uses the memory"
        )


def require_space(folder: Path, needed: int) -> None:
    """Raise if the file system of a folder, which need not exist yet, is too small."""
    free = machine.free_disk_bytes(folder)
    if free < needed:
        raise LabError(
            f"the lab's image and disks may grow to {needed} bytes, but {machine.there(folder)} "
            f"has {free} free; free some, ask for less disk_bytes, or move the cache with "
            "INNOLAB_CACHE"
        )


def suite() -> str:
    """Return the Debian suite of this machine, which is the guest's too."""
    system = platform.freedesktop_os_release()
    if system["ID"] != "debian":
        raise LabError(
            f"the lab's guest is made of this machine's Debian, but its ID is {system['ID']}"
        )
    return system.get("VERSION_CODENAME", "sid")


def archive(suite: str) -> list[str]:
    """Return sources of a suite and its updates, from the Debian mirrors this machine uses."""
    fields = "|".join(f"$({field})" for field in _TARGET_FIELDS)
    listed = run("apt-get", "indextargets", f"--format={fields}", "--no-release-info")
    suites = {suite, f"{suite}-updates", f"{suite}-security"}
    option = f"[signed-by={_KEYRING}] " if _KEYRING.is_file() else ""
    found = []
    for kind, component, release, uri in (line.split("|") for line in listed.splitlines()):
        # Other vendors name their suites after Debian's too.
        debian = urlsplit(uri).path.strip("/") in ("debian", "debian-security")
        if kind == "Packages" and component == "main" and release in suites and debian:
            found.append(f"deb {option}{uri} {release} main")
    if not any(f" {suite} main" in line for line in found):
        raise LabError(
            f"this machine's apt sources name no Debian archive of {suite}, from which the guest "
            "would come; add it to the sources"
        )
    return sorted(set(found))


def apt_settings() -> list[str]:
    """Return the settings of this machine's apt without which its mirrors may not be reached."""
    lines = run("apt-config", "dump").splitlines()
    wanted = re.compile(r"Acquire::(?:https?::.*Proxy|Check-|https?::Verify|https?::CaInfo)")
    return [line for line in lines if wanted.match(line)]
