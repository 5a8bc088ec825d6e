"""The lab's guest as an image: built from Debian packages once, then kept."""

import hashlib
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import NamedTuple

from innolab.hosts.lab.machine import apt_settings, archive, run, suite

# To be raised when this file makes another image of the same recipe.
_VERSION = 1
# Half the inodes of mke2fs's default are plenty, and a smaller image is sooner copied.
_INODES = 262_144
_MODES = {"root": 0o700, "root/.ssh": 0o700}
_SECRET = ("etc/ssh/ssh_host_ed25519_key", "root/.ssh/authorized_keys")


class ImageRecipe(NamedTuple):
    """What an image is made of."""

    files: Path
    packages: list[str]
    system_bytes: int

    def digest(self) -> str:
        """Return the identity of what comes out, but for the state of Debian's archive."""
        parts: list[object] = [_VERSION, suite(), sorted(self.packages), self.system_bytes]
        for file in sorted(x for x in self.files.rglob("*") if x.is_file()):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            parts.append([str(file.relative_to(self.files)), content])
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


class Image:
    """A folder with system disk, kernel, initrd and keys; whole or absent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.system, self.kernel = folder / "system.img", folder / "vmlinuz"
        self.initrd, self.key = folder / "initrd.img", folder / "id_ed25519"
        self.host_key = folder / "host_key.pub"

    def digest(self) -> str | None:
        """Return the digest of the recipe that this image was made of, if it is there."""
        try:
            return str(json.loads((self.folder / "image.json").read_text())["digest"])
        except FileNotFoundError:
            return None

    def build(self, recipe: ImageRecipe) -> None:
        """Build next to the folder and rename into place."""
        new = Image(self.folder.with_name(f"{self.folder.name}.new"))
        new.remove()
        new.folder.mkdir()
        try:
            new._make(recipe)
            self.remove()
            new.folder.rename(self.folder)
        finally:
            new.remove()

    def remove(self) -> None:
        """Remove the image, or what an interrupted build left of it."""
        if self.folder.exists():
            _as_root("rm", "-r", self.folder)

    def _make(self, recipe: ImageRecipe) -> None:
        work = self.folder / "work"
        work.mkdir()
        own_files = _own_files(recipe.files, self._keys(work))
        (work / "guest.tar").write_bytes(own_files)
        _debootstrap(work, recipe)
        self._pack(work, recipe.system_bytes)
        shutil.rmtree(work)
        body = {"digest": recipe.digest(), "suite": suite(), "packages": recipe.packages}
        (self.folder / "image.json").write_text(json.dumps(body, indent=2) + "\n")

    def _keys(self, work: Path) -> dict[str, bytes]:
        """Make the two key pairs; return the guest's files that hold them."""
        for file, whose in ((self.key, "user of the lab"), (work / "host_key", "lab")):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", whose, "-f", file)
        shutil.copy(work / "host_key.pub", self.host_key)
        return {
            "etc/ssh/ssh_host_ed25519_key": (work / "host_key").read_bytes(),
            "etc/ssh/ssh_host_ed25519_key.pub": self.host_key.read_bytes(),
            "root/.ssh/authorized_keys": self.key.with_suffix(".pub").read_bytes(),
        }

    def _pack(self, work: Path, size: int) -> None:
        """Make a file system of the packed files; no mount, so no root, is needed for that."""
        script = """
            mkdir tree
            # Only root may make device nodes, and the guest's kernel makes its own.
            tar --directory=tree --extract --numeric-owner --exclude='./dev/*' --file=guest-all.tar
            cp tree/boot/vmlinuz tree/boot/initrd.img ..
            truncate --size="$1" ../system.img
            now=lazy_itable_init=0,lazy_journal_init=0  # else the guest does it, while it measures
            mke2fs -q -t ext4 -N "$2" -E "$now" -d tree ../system.img
            rm -r tree
        """
        _as_root("sh", "-euc", script, "pack", str(size), str(_INODES), cwd=work)


def _as_root(*words: str | Path, cwd: Path | None = None) -> None:
    """Run a program as root, or as one who may own files on behalf of the guest's users."""
    root = [] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--map-auto"]
    run(*root, *words, cwd=cwd)


def _own_files(files: Path, keys: dict[str, bytes]) -> bytes:
    """Return a tar of what the guest has besides its packages, all of it owned by root."""
    guest = files / "guest"
    contents = {str(x.relative_to(guest)): x.read_bytes() for x in guest.rglob("*") if x.is_file()}
    contents |= {"boot/init": (files / "init").read_bytes(), **keys}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, mode in _MODES.items():
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, mode
            tar.addfile(folder)
        for name, content in sorted(contents.items()):
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(content), 0o600 if name in _SECRET else 0o644
            tar.addfile(file, io.BytesIO(content))
    return packed.getvalue()


def _debootstrap(work: Path, recipe: ImageRecipe) -> None:
    """Have mmdebstrap install the packages into a tar of the guest's files."""
    options = [
        "--mode=auto",
        "--variant=minbase",
        "--format=tar",
        f"--include={','.join(recipe.packages)}",
        *(f"--dpkgopt=path-exclude=/usr/share/{x}/*" for x in ("doc", "locale", "man")),
        # An image that was half written is thrown away, so no package needs to be synced.
        "--dpkgopt=force-unsafe-io",
        *(f"--aptopt={line}" for line in apt_settings()),
        "--customize-hook=tar-in guest.tar /",
        f"--customize-hook={(recipe.files / 'finish.sh').read_text()}",
    ]
    # The guest's initrd is ours (see finish.sh), and /tmp may be small.
    env = {**os.environ, "INITRD": "No", "TMPDIR": "/var/tmp", "LC_ALL": "C"}
    advice = "; check the network and this machine's Debian mirror, then run this again"
    words = ["mmdebstrap", "--quiet", *options, suite(), "guest-all.tar", *archive(suite())]
    run(*words, advice=advice, cwd=work, env=env)
