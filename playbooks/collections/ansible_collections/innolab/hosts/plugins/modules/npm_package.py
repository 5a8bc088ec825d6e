"""Unpack one npm package whose archive has exactly the pinned content."""

import base64
import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: npm_package
short_description: Unpack one npm package whose archive has exactly the pinned content
description:
  - Fetches the archive with C(npm pack), which runs no script of the package and honours the
    host's registry, proxy and credentials.
  - Compares the archive with the pin, unpacks it beside I(dest) and renames it into place, so
    that I(dest) is either absent or complete.
author: innolab
options:
  name: {description: Name of the package., type: str, required: true}
  version: {description: Its exact version., type: str, required: true}
  integrity:
    description: Pin of the archive, C(sha512-) and the base64 of its SHA-512.
    type: str
    required: true
  npm: {description: Words that start npm., type: list, elements: str, required: true}
  keep:
    description: Files and folders of the package to unpack.
    type: list
    elements: str
    required: true
  dest: {description: Folder that will hold them., type: path, required: true}
"""

EXAMPLES = r"""
- name: Unpack the server of a package
  innolab.hosts.npm_package:
    name: some-server
    version: 1.2.3
    integrity: sha512-...
    npm: [npm]
    keep: [server]
    dest: /var/cache/some-server
"""

RETURN = r"""
dest: {description: The folder of the package., type: str, returned: success}
"""

# npm waits minutes for a registry that does not answer before it says so.
_NPM_OPTIONS = ["--json", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]


class _FetchError(Exception):
    """Why the package cannot be had, in words for the user."""


def _pack(npm: list[str], spec: str, folder: Path) -> Path:
    """Have npm write the archive of a package into a folder."""
    words = [*npm, "pack", spec, f"--cache={folder / 'npm-cache'}", *_NPM_OPTIONS]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    except OSError as error:
        raise _FetchError(f"npm does not start as '{' '.join(npm)}': {error}") from error
    archives = list(folder.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        try:
            reason = json.loads(done.stdout)["error"]["summary"]
        except (ValueError, KeyError, TypeError):  # npm itself is broken
            reason = " ".join(done.stderr.split())[-300:] or "it gave no reason"
        raise _FetchError(
            f"npm could not fetch {spec} ({reason.rstrip('.')}); check the network "
            "and npm's registry setting, then run the setup again"
        )
    return archives[0]


def _compare(archive: Path, spec: str, pin: str) -> None:
    """Refuse an archive that is not the pinned one, whatever the registry says of it."""
    digest = hashlib.sha512(archive.read_bytes()).digest()
    found = "sha512-" + base64.b64encode(digest).decode()
    if found != pin:
        raise _FetchError(
            f"the archive of {spec} is not the pinned one (its integrity is {found}, expected "
            f"was {pin}); look whether the registry changed the package or the pin is mistyped"
        )


def _unpack(archive: Path, keep: list[str], folder: Path) -> None:
    """Unpack some members of an npm archive, which holds all of them under `package/`."""
    folder.mkdir()
    words = ["tar", "--extract", "--gzip", f"--file={archive}", f"--directory={folder}"]
    # Root's tar would restore the packager's user and group, and group-writable files.
    words += ["--strip-components=1", "--no-same-owner", "--no-same-permissions", "--"]
    words += [f"package/{member}" for member in keep]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise _FetchError(f"tar could not unpack {archive.name}: {' '.join(done.stderr.split())}")


def main() -> None:
    """Run the module."""
    options = {
        "name": {"type": "str", "required": True},
        "version": {"type": "str", "required": True},
        "integrity": {"type": "str", "required": True},
        "npm": {"type": "list", "elements": "str", "required": True},
        "keep": {"type": "list", "elements": "str", "required": True},
        "dest": {"type": "path", "required": True},
    }
    module = AnsibleModule(options, supports_check_mode=True)
    dest = Path(module.params["dest"])
    spec = f"{module.params['name']}@{module.params['version']}"
    if dest.is_dir():
        module.exit_json(changed=False, dest=str(dest))
    diff = {"before": f"{dest}: absent\n", "after": f"{dest}: npm package {spec}\n"}
    if module.check_mode:
        module.exit_json(changed=True, dest=str(dest), diff=diff)

    os.umask(0o022)  # the servers' user, who is not ours, reads these files
    try:
        dest.parent.mkdir(parents=True, exist_ok=True)
        # Beside dest: a rename is atomic only within one file system.
        with tempfile.TemporaryDirectory(prefix=f".{dest.name}-", dir=dest.parent) as work:
            archive = _pack(module.params["npm"], spec, Path(work))
            _compare(archive, spec, module.params["integrity"])
            _unpack(archive, module.params["keep"], Path(work, "unpacked"))
            try:
                Path(work, "unpacked").rename(dest)
            except OSError:
                if not dest.is_dir():  # else another setup was faster
                    raise
    except (_FetchError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, dest=str(dest), diff=diff)


if __name__ == "__main__":
    main()
