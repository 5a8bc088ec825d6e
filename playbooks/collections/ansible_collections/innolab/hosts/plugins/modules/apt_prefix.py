"""Unpack Debian packages with all their libraries into a folder of their own."""

import hashlib
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: apt_prefix
short_description: Unpack Debian packages with all their libraries into a folder of their own
description:
  - Installs nothing and needs no root. apt works on private state in which no package is
    installed, so that the closure is complete down to the C library and its loader; apt checks
    signatures and hashes as ever.
  - The mirror is the one of the host's own Debian sources.
  - Unpacks beside I(dest) and renames into place, so that I(dest) is either absent or complete.
author: innolab
options:
  name: {description: Packages to unpack., type: list, elements: str, required: true}
  suite:
    description: Debian suite to take them from; C(host) means the host's own.
    type: str
    default: host
  dest: {description: Folder of the packages., type: path, required: true}
  library_folders:
    description:
      - Folders below the one of the libraries that hold libraries too. Programs name them by
        absolute paths, which miss them in a prefix.
    type: list
    elements: str
    default: []
  state: {description: What there should be., type: str, choices: [present], default: present}
"""

EXAMPLES = r"""
- name: Unpack a server and its libraries
  innolab.hosts.apt_prefix:
    name: [mysql-server-core]
    suite: sid
    dest: /var/cache/some-server
"""

RETURN = r"""
suite: {description: The suite the packages came from., type: str, returned: once unpacked}
packages: {description: Version and SHA-256 of each by name., type: dict, returned: once unpacked}
starter:
  description: Words to put before the path of a program in I(dest) to run it.
  type: list
  elements: str
  returned: once unpacked
"""

_RECORD = "packages.json"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_TARGET_FIELDS = ["CREATED_BY", "COMPONENT", "RELEASE", "ORIGIN", "REPO_URI"]

# Read after the host's own settings, of which it thus keeps proxies and credentials.
_APT_CONF = """
Dir::State "{work}/state";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
Dir::Etc::sourcelist "{work}/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
#clear APT::Update;  // hooks of the host that tend its own lists, not ours
#clear APT::Default-Release;
APT::Update::Error-Mode "any";  // else an unreachable mirror is a warning
Acquire::Retries "1";  // three, the default, take seconds more to say that there is no network
APT::Sandbox::User "";  // the user _apt cannot enter our temporary folder
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::Languages "none";
"""

_SOURCES = """\
Types: deb
URIs: {uri}
Suites: {suite}
Components: main
Architectures: {architecture}
Targets: Packages
Signed-By: {keyring}
"""


class _FetchError(Exception):
    """Why the packages cannot be had, in words for the user."""


def _run(*words: str | Path) -> str:
    """Run a tool of Debian and return what it wrote; its `E:` lines are the reason of a failure."""
    try:
        done = subprocess.run(
            words, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise _FetchError(
            f"this host has no {words[0]}, which Debian packages need; run the setup on Debian"
        ) from None
    if done.returncode:
        lines = done.stderr.splitlines()
        said = " ".join(line[3:] for line in lines if line.startswith("E: ")) or " ".join(lines)
        raise _FetchError(
            f"{Path(words[0]).name} failed ({' '.join(said.split())[:300]}); check the network and "
            "the host's Debian mirror, then run the setup again"
        )
    return done.stdout


def _host_archive() -> tuple[str, str]:
    """Return mirror and suite of the host's main Debian archive."""
    fields = "|".join(f"$({field})" for field in _TARGET_FIELDS)
    listing = ["apt-get", "indextargets", f"--format={fields}"]
    # With its origin apt names only an archive that was updated, which none is in a new container.
    listed = _run(*listing) + _run(*listing, "--no-release-info")
    release = Path("/etc/os-release").read_text().replace('"', "").splitlines()
    system = dict(line.split("=", 1) for line in release if "=" in line)
    own_suite = system.get("VERSION_CODENAME", "sid")

    def likeness(target: list[str]) -> tuple[bool, bool, bool]:
        # Other vendors name their suites after Debian's too.
        _, _, suite, origin, uri = target
        return origin == "Debian", urlsplit(uri).path.strip("/") == "debian", suite == own_suite

    targets = [line.split("|") for line in listed.splitlines()]
    mains = [target for target in targets if target[:2] == ["Packages", "main"]]
    best = max(mains, key=likeness, default=None)
    if system.get("ID") != "debian" or best is None or not any(likeness(best)):
        raise _FetchError(
            "this host's apt sources name no Debian archive, from which the packages would come; "
            "run the setup on Debian or add its archive to the sources"
        )
    return best[4].rstrip("/"), own_suite


def _download(names: list[str], suite: str, uri: str, work: Path) -> list[Path]:
    """Have apt resolve, fetch and verify packages with their closure."""
    (work / "status").touch()
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / folder).mkdir(parents=True)
    architecture = _run("dpkg", "--print-architecture").strip()
    (work / "debian.sources").write_text(
        _SOURCES.format(uri=uri, suite=suite, architecture=architecture, keyring=_KEYRING)
    )
    (work / "apt.conf").write_text(_APT_CONF.format(work=work))
    apt = ["apt-get", "-c", work / "apt.conf", "-q"]
    _run(*apt, "update")
    _run(*apt, "install", "--download-only", "--yes", *names)
    return sorted((work / "cache/archives").glob("*.deb"))


def _describe(archive: Path) -> tuple[str, dict[str, str]]:
    """Return name and particulars of a package from its file NAME_VERSION_ARCHITECTURE.deb."""
    name, version, _ = unquote(archive.name).split("_")
    return name, {"version": version, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}


def _build(names: list[str], suite: str, dest: Path) -> None:
    """Unpack packages and closure into place."""
    uri, own_suite = _host_archive()
    suite = own_suite if suite == "host" else suite
    dest.parent.mkdir(parents=True, exist_ok=True)
    # Beside dest: a rename is atomic only within one file system.
    with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as folder:
        work, root = Path(folder), Path(folder, "root")
        archives = _download(names, suite, uri, work)
        root.mkdir()
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(lambda archive: _run("dpkg-deb", "--extract", archive, root), archives))
            packages = dict(pool.map(_describe, archives))
        record = {"suite": suite, "names": names, "packages": packages}
        (root / _RECORD).write_text(json.dumps(record, indent=2) + "\n")
        try:
            root.rename(dest)
        except OSError:
            if not (dest / _RECORD).is_file():  # else another setup was faster
                raise


def _starter(dest: Path, library_folders: list[str]) -> list[str]:
    """Return the words that run a program of the prefix with the prefix's own libraries."""
    # lib/ may be a link to usr/lib/: one file under two names then.
    found = [path for lib in ("lib", "usr/lib") for path in dest.glob(f"{lib}/*/libc.so.6")]
    [libc] = {path.resolve() for path in found}
    triplet = libc.parent.name
    # Not lib64/: before Debian 13 that is a link to the host's loader, which fits the host only.
    loader = next(libc.parent.glob("ld-linux*.so.*"))
    folders = [
        dest / lib / triplet / below
        for below in ("", *library_folders)
        for lib in ("usr/lib", "lib")
    ]
    libraries = ":".join(str(folder) for folder in folders if folder.is_dir())
    return [str(loader), "--library-path", libraries]


def _present(dest: Path, library_folders: list[str]) -> dict[str, Any]:
    """Return what a finished prefix holds."""
    record = json.loads((dest / _RECORD).read_text())
    starter = _starter(dest, library_folders)
    return {"suite": record["suite"], "packages": record["packages"], "starter": starter}


def main() -> None:
    """Run the module."""
    options = {
        "name": {"type": "list", "elements": "str", "required": True},
        "suite": {"type": "str", "default": "host"},
        "dest": {"type": "path", "required": True},
        "library_folders": {"type": "list", "elements": "str", "default": []},
        "state": {"type": "str", "choices": ["present"], "default": "present"},
    }
    module = AnsibleModule(options, supports_check_mode=True)
    names, suite, dest = module.params["name"], module.params["suite"], Path(module.params["dest"])
    library_folders = module.params["library_folders"]
    if (dest / _RECORD).is_file():
        module.exit_json(changed=False, **_present(dest, library_folders))
    after = f"{dest}: {' '.join(names)} of Debian suite {suite} with their libraries\n"
    diff = {"before": f"{dest}: absent\n", "after": after}
    if module.check_mode:
        module.exit_json(changed=True, diff=diff)

    os.umask(0o022)  # the servers' user, who is not ours, reads these files
    try:
        _build(names, suite, dest)
    except (_FetchError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, diff=diff, **_present(dest, library_folders))


if __name__ == "__main__":
    main()
