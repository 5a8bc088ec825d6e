"""What innolab needs to measure, as one archive for a host that has nothing of it.

Python with its libraries, the packages that measuring imports, the project's own files, servers
and tools. All programs have their own dynamic loader, so a host's own libraries may be of any age.
"""

import functools
import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import IO

from packaging.requirements import Requirement

from innolab.base import places
from innolab.base.errors import InnolabError
from innolab.base.provenance import own_facts
from innolab.hosts import machine

# Where a host has it, whatever this machine's own cache is called.
FOLDER = Path("/var/cache/innolab/brought")
# Parts of a cache folder that the set-up makes and measuring only reads.
PARTS = ("builds", "tools", "etc")
# What innolab.measure.block and the playbooks that it plays import, each with what it requires.
_PACKAGES = ("ansible-core", "babel", "distributed", "jinja2", "mysql-connector-python", "pandas",
             "pyarrow", "pydantic", "pyyaml", "rich", "scipy", "setuptools", "typer")  # fmt: skip
# Of all collections that the package `ansible` holds, the one by which playbooks answer in JSON.
_COLLECTION = "ansible_collections/ansible/posix/"
_OWN = ("data", "notebooks", "playbooks")
# Folders that stay here, and further ones of Python's own library.
_NOT_MEASURING = {"__pycache__", "tests", ".ipynb_checkpoints"}
_NOT_OF_LIBRARY = {"test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3",
                   "site-packages", "dist-packages"}  # fmt: skip
_ELF = b"\x7fELF"
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
_PLAYBOOK = '#!/bin/sh\nexec {root}/bin/python -m ansible.cli.playbook "$@"\n'
_PYTHON = (
    "#!/bin/sh\n"
    "exec {root}/system/{loader} --library-path {root}/system --argv0 {root}/bin/python "
    '{root}/bin/python-itself "$@"\n'
)


class Bundle:
    """An archive of this innolab for hosts.

    Parameters
    ----------
    builds : the ids of the servers that go with it

    Attributes
    ----------
    digest : identifies it
    root : where a host unpacks it
    """

    def __init__(self, builds: Iterable[str]) -> None:
        self._cache = machine.cache_folder()
        self._builds = sorted(builds)
        self.digest = self._digest()
        self.root = FOLDER / f"innolab-{self.digest}"

    @property
    def python(self) -> Path:
        """Return the command of its interpreter on a host."""
        return self.root / "bin" / "python"

    def _digest(self) -> str:
        """Return the digest of all that an archive depends on, without packing it."""
        # Small files next to servers and tools describe them.
        described = [file for file in self._cached() if file.suffix in (".json", ".cnf")]
        starters = (self._cache / "tools" / "bin").iterdir()
        parts = [
            platform.python_version(),
            own_facts(),
            sorted(f"{name} {package.version}" for name, package in _distributions().items()),
            sorted(_sha256(file, place) for file, place in _own_files().items()),
            sorted(
                _sha256(file, file.relative_to(self._cache)) for file in [*described, *starters]
            ),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    def pack(self, out: IO[bytes]) -> None:
        """Write it as a tar, with paths below its root.

        Raises
        ------
        InnolabError
            If this machine's Python or a program cannot be asked for its libraries.
        """
        with tarfile.open(fileobj=out, mode="w|") as tar:
            packages = Path("lib") / _standard_library().name / "site-packages"
            binaries = [Path(sys.executable).resolve()]
            for file, place in self._python_files(packages):
                tar.add(file, place, recursive=False)
                if ".so" in file.suffixes and not file.is_symlink():
                    binaries.append(file)
            tar.add(binaries[0], "bin/python-itself")
            own = packages / "innolab" / places.PACKED
            _text(tar, own / places.REVISION_FILE, json.dumps(_revision()) + "\n")
            libraries = _libraries(binaries)
            for name, file in libraries.items():
                tar.add(file.resolve(), f"system/{name}")
            loader = next(name for name in libraries if name.startswith("ld-linux"))
            words = {"root": self.root, "loader": loader}
            _text(tar, "bin/python", _PYTHON.format(**words), 0o755)
            _text(tar, "bin/ansible-playbook", _PLAYBOOK.format(**words), 0o755)
            for file in self._cached():
                self._add_cached(tar, file)

    def _python_files(self, packages: Path) -> Iterator[tuple[Path, Path]]:
        """Yield files of Python, of packages and of innolab, with their places."""
        library = _standard_library()
        for file in _below(library):
            place = file.relative_to(library)
            if _NOT_OF_LIBRARY.isdisjoint(place.parts):
                yield file, Path("lib") / library.name / place
        listed = [
            (package, one) for package in _distributions().values() for one in package.files or ()
        ]
        ansible = distribution("ansible")
        listed += [(ansible, one) for one in ansible.files or () if _COLLECTION in str(one)]
        for package, one in listed:
            file = Path(str(package.locate_file(one)))
            if ".." not in one.parts and _measures(one.parts) and file.is_file():
                yield file, packages / one
        for file, place in _own_files().items():
            yield file, packages / "innolab" / place

    def _cached(self) -> Iterator[Path]:
        """Yield the files of servers, tools and base settings."""
        cache = self._cache
        for build in self._builds:
            yield cache / "builds" / f"{build}.json"
            yield from _all_below(cache / "builds" / build)
        yield from _all_below(cache / "tools")
        yield from _all_below(cache / "etc")

    def _add_cached(self, tar: tarfile.TarFile, file: Path) -> None:
        place = file.relative_to(self._cache)
        names_paths = place.parts[0] == "etc" or place.parts[:2] == ("tools", "bin")
        names_paths |= place.parts[0] == "builds" and len(place.parts) == 2
        if not names_paths or file.read_bytes().startswith(_ELF):
            tar.add(file, place, recursive=False)
            return
        text = file.read_text()
        # By this machine's paths; and a cache may be made of links to another's parts.
        for part in PARTS:
            for known in {str(self._cache / part), str((self._cache / part).resolve())}:
                text = text.replace(f"{known}/", f"{FOLDER / part}/")
        _text(tar, place, text, file.stat().st_mode & 0o777)


def _standard_library() -> Path:
    return Path(sysconfig.get_paths()["stdlib"])


@functools.cache
def _distributions() -> dict[str, Distribution]:
    """Return the packages that go, by name: ours, what they require, and studies of others."""
    wanted = [*_PACKAGES, *(e.dist.name for e in entry_points(group="innolab.studies") if e.dist)]
    found: dict[str, Distribution] = {}
    while wanted:
        name = wanted.pop().lower().replace("_", "-")
        if name in found or name == "innolab":
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            raise InnolabError(
                f"The package {name} is missing here, which measuring needs. Set this machine up "
                f"again: {places.set_up()}."
            ) from None
        if not found[name].files:
            raise InnolabError(
                f"The package {name} does not say which files it has, so it cannot be copied to "
                f"another host. Set this machine up again: {places.set_up()}."
            )
        for line in found[name].requires or ():
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                wanted.append(needed.name)
    return found


def _revision() -> dict[str, object]:
    return {name: value for name, value in own_facts().items() if name != "version"}


def _own_files() -> dict[Path, Path]:
    """Return the project's own files with their places in the package, as a wheel has them."""
    packed = places.PACKAGE / places.PACKED
    code = [file for file in _below(places.PACKAGE) if not file.is_relative_to(packed)]
    own = [places.own(name) for name in _OWN]
    others = [file for place in own for file in (_below(place) if place.is_dir() else [place])]
    return {file: file.relative_to(places.PACKAGE) for file in code} | {
        file: Path(places.PACKED) / file.relative_to(places.own()) for file in others
    }


def _below(folder: Path) -> Iterator[Path]:
    for file in _all_below(folder):
        if _measures(file.relative_to(folder).parts):
            yield file


def _measures(parts: tuple[str, ...]) -> bool:
    return _NOT_MEASURING.isdisjoint(parts)


def _all_below(folder: Path) -> Iterator[Path]:
    yield from sorted(file for file in folder.rglob("*") if file.is_file() or file.is_symlink())


def _libraries(binaries: list[Path]) -> dict[str, Path]:
    """Return the libraries of the system that programs need, and their loader, by file name."""
    done = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, errors="replace"
    )
    found = {Path(path).name: Path(path) for path in _LIBRARY.findall(done.stdout)}
    own = (Path(sys.prefix).resolve(), _standard_library())
    kept = {
        name: path
        for name, path in found.items()
        if not any(path.is_relative_to(place) for place in own)
    }
    if not shutil.which("ldd") or not any(name.startswith("ld-linux") for name in kept):
        raise InnolabError(
            "This machine's Python cannot be copied to another host: ldd does not name its "
            f"libraries. It said: {done.stderr.strip()[-200:] or 'nothing'}"
        )
    return kept


def _text(tar: tarfile.TarFile, place: Path | str, text: str, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(str(place))
    entry.size, entry.mode = len(text.encode()), mode
    tar.addfile(entry, io.BytesIO(text.encode()))


def _sha256(file: Path, place: Path) -> str:
    return f"{place} {hashlib.sha256(file.read_bytes()).hexdigest()}"
