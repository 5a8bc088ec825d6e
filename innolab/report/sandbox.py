"""Execute a stranger's notebook in a sandbox: no network, no rights, bounds on all it may use.

The sandbox is bubblewrap's. Inside, the process sees an empty /tmp, the system's programs, Python,
the parts of innolab that a replay needs, and the one folder that it may write. It runs as the
unprivileged user `innolab` where we are root, in a user namespace that allows no further one, and
ends with us or when its time is over. Where this host cannot do that, nothing is executed.

What such a notebook shows is its author's word: it may print any number. Whether its results follow
from the runs, only the study's own notebook tells.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from innolab import studies
from innolab.base import parsing, places
from innolab.base.errors import InnolabError, InputError
from innolab.hosts import machine, tools
from innolab.report import folders, leftovers
from innolab.report.leftovers import MOST_LEFT_BYTES, MOST_SAID, plain

# The largest notebook of a reference report has 1 MB.
_MOST_SOURCE_BYTES = 64 * 1024**2
# What one file of a replay may hold.
_MOST_FILE_BYTES = 256 * 1024**2
_MEMORY_BYTES = 16 * 1024**3
_PROCESSES = 256
_OPEN_FILES = 1024
# The kernel ends all processes of a sandbox in milliseconds.
_END_LIMIT_S = 30
_PROBE_LIMIT_S = 30
_LOOK_EVERY_S = 0.5
_OF_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_OF_ETC = (
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "fonts", "passwd", "group", "nsswitch.conf",
    "alternatives", "localtime",
)  # fmt: skip
_INNER_SOURCE = "/source"
_INNER_REPORT = "/report"
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
    "HOME": "/tmp/home",
    "TMPDIR": "/tmp",
    "IPYTHONDIR": "/tmp/home/ipython",
    "JUPYTER_CONFIG_DIR": "/tmp/home/jupyter/config",
    "JUPYTER_DATA_DIR": "/tmp/home/jupyter/data",
    "JUPYTER_RUNTIME_DIR": "/tmp/home/jupyter/runtime",
    "MPLCONFIGDIR": "/tmp/home/matplotlib",
    "INNOLAB_REPLAY": "1",
    # A thread for each processor of a large host would need more memory than the bound.
    "OPENBLAS_NUM_THREADS": "2",
    "OMP_NUM_THREADS": "2",
}


def replay(study_name: str, folder: Path, source: Path, limit_s: float) -> None:
    """Execute a notebook on recorded runs in a sandbox; notebook, figures and page are in `folder`.

    Parameters
    ----------
    folder : a copy of what was recorded, in a place of its own: the notebook may change all in it
        but the records
    source : the notebook; nothing in it is trusted
    limit_s : seconds until all processes of the sandbox are killed

    Raises
    ------
    InputError
        Where this host has no bubblewrap or cannot isolate; nothing was executed.
    InnolabError
        Where the notebook fails, does not end in time, uses too much, or leaves a link or another
        special file; what it left of that kind is removed.
    """
    study = studies.find(study_name)
    folder = folder.resolve()
    leftovers.refuse(leftovers.owned(folder))
    with tempfile.TemporaryDirectory(prefix="innolab-sandbox-") as place:
        notebook = _readable_copy(source, Path(place))
        walls = _walls(folder, notebook)
        _prove(walls)
        machine.give_to_server(folder)
        inner = f"{_INNER_REPORT}/{folder.name}"
        module = ["-m", "innolab.report.sandbox"]
        words = [*_python(), *module, study.name, inner, f"{_INNER_SOURCE}/{notebook.name}"]
        try:
            _run([*walls, *words], folder, limit_s)
        finally:
            strange = leftovers.owned(folder)
        # Not after a failure, which says more: a kernel that is killed leaves its sockets.
        leftovers.refuse(strange)


def _readable_copy(source: Path, place: Path) -> Path:
    """Return a copy of a notebook that the sandbox's user may read; a link is no notebook."""
    copy = place / "notebook.ipynb"
    try:
        copy.write_text(parsing.read_text(source, _MOST_SOURCE_BYTES))
    except ValueError as error:
        raise InputError(f"{source} cannot be executed: {error}. Nothing was executed.") from None
    copy.chmod(0o644)
    return copy


def _walls(folder: Path, notebook: Path) -> list[str]:
    """Return the words before a command that isolate it with all that it starts."""
    bubblewrap = _bubblewrap()
    inside = ["--unshare-user", "--disable-userns"]
    if user := machine.server_user():
        # Root binds what lies in folders that only root may enter, and then becomes the user. The
        # second bubblewrap takes the right to make user namespaces, in which all have all rights.
        changing = [f"--cap-add=CAP_{name}" for name in ("SETUID", "SETGID", "SETPCAP")]
        words = [bubblewrap, "--cap-drop", "ALL", *_split(changing)]
        become = [
            "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs",
            "--inh-caps=-all", "--bounding-set=-all",
            bubblewrap, *inside, "--dev-bind", "/", "/",
            "--chdir", f"{_INNER_REPORT}/{folder.name}",
        ]  # fmt: skip
    else:
        words, become = [bubblewrap, *inside], []
    return [
        "choom", "-n", "1000", "--",  # Where memory is short, the kernel ends the sandbox first.
        *words, "--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
        "--unshare-cgroup-try", "--hostname", "sandbox", "--die-with-parent", "--new-session",
        *_mounts(folder, notebook), "--chdir", f"{_INNER_REPORT}/{folder.name}",
        *become,
        "prlimit", f"--as={_MEMORY_BYTES}", f"--nproc={_PROCESSES}", f"--fsize={_MOST_FILE_BYTES}",
        f"--nofile={_OPEN_FILES}", "--core=0", "--",
    ]  # fmt: skip


def _split(options: list[str]) -> list[str]:
    return [word for option in options for word in option.split("=", 1)]


def _mounts(folder: Path, notebook: Path) -> list[str]:
    """Return bubblewrap's words for the file system of the sandbox."""
    report = f"{_INNER_REPORT}/{folder.name}"
    words = [
        *("--dev", "/dev", *_memory_disk("/dev/shm"), "--remount-ro", "/dev"),
        *("--proc", "/proc", *_memory_disk("/tmp")),
    ]
    for system in map(Path, _OF_SYSTEM):
        if system.is_symlink():
            words += ["--symlink", str(system.readlink()), str(system)]
        elif system.is_dir():
            words += _bound(str(system))
    etc = [path for name in _OF_ETC if (path := Path("/etc") / name).exists()]
    for visible in [Path("/usr"), *etc, *_needed_by_python()]:
        words += _bound(str(visible))
    words += _bound(str(notebook), f"{_INNER_SOURCE}/{notebook.name}")
    words += [*_parents(report), "--bind", str(folder), report]
    for name in folders.RECORDED:
        if (folder / name).exists():
            words += ["--ro-bind", str(folder / name), f"{report}/{name}"]
    return [*words, "--remount-ro", "/"]


def _memory_disk(path: str) -> list[str]:
    return ["--perms", "1777", "--size", str(MOST_LEFT_BYTES), "--tmpfs", path]


def _bound(path: str, inner: str | None = None) -> list[str]:
    return [*_parents(inner or path), "--ro-bind", path, inner or path]


def _parents(path: str) -> list[str]:
    """Return the words that make the folders above a path, which all may enter.

    Only what lies in such a folder and is bound is to be seen: /root is empty but for Python.
    """
    above = [str(parent) for parent in reversed(Path(path).parents)][1:]
    return [word for parent in above for word in ("--perms", "0755", "--dir", parent)]


def _needed_by_python() -> list[Path]:
    """Return where this Python, innolab, and a bubblewrap that set-up unpacked have their files."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]]
    found += [places.PACKAGE, *map(places.own, ("notebooks", "data", "CITATION.cff"))]
    unpacked = machine.cache_folder() / "tools"
    if Path(_bubblewrap()).is_relative_to(unpacked):
        found += [unpacked / "bin", unpacked / "prefix-bubblewrap"]
    refused = [path for path in found if Path.home().is_relative_to(path)]
    if refused:
        raise InputError(
            f"Python lies in {refused[0]}, with all that your home holds, so a stranger's notebook "
            "would see it. Set innolab up in a folder of its own. Nothing was executed."
        )
    found = [path for path in dict.fromkeys(found) if path.exists() and path.parts[1] != "usr"]
    # Of an installed innolab all lies in Python's own folder.
    return [path for path in found if not any(outer in path.parents for outer in found)]


def _python() -> list[str]:
    """Return the words that start this Python on what is installed with it alone.

    Without bytecode written: all but the report's folder is read-only.
    """
    return [sys.executable, "-I", "-B"]


def _bubblewrap() -> str:
    try:
        return tools.path("bwrap")
    except InputError as error:
        if found := shutil.which("bwrap"):
            return found
        raise InputError(
            "A stranger's notebook is executed in a sandbox alone, and this host has no bubblewrap "
            f"to make one: {error}, or with: apt install bubblewrap. Nothing was executed."
        ) from None


def _prove(walls: list[str]) -> None:
    """Start Python within the walls once.

    Raises
    ------
    InputError
        Where that fails: this host cannot isolate.
    """
    try:
        done = subprocess.run(
            [*walls, *_python(), "-c", ""],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_LIMIT_S,
        )
        said = done.stderr if done.returncode else None
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if said is not None:
        raise InputError(
            f"This host cannot isolate a stranger's notebook: {plain(said)}. It needs bubblewrap "
            "0.8 or newer and a kernel that lets users make namespaces (sysctl "
            "user.max_user_namespaces above 0; on Ubuntu, "
            "kernel.apparmor_restrict_unprivileged_userns=0); in a container, one that allows "
            "mounts. Nothing was executed."
        )


def _run(words: list[str], folder: Path, limit_s: float) -> None:
    """Run a command within walls to its end, or to the end of its time, and leave no process.

    Raises
    ------
    InnolabError
        Where it fails; quotes the end of what it said.
    """
    ours, theirs = os.pipe()
    # A file: how much a notebook says is bounded there as for all its files.
    with tempfile.TemporaryFile() as said, os.fdopen(ours) as facts:
        at = words.index(_bubblewrap()) + 1
        process = subprocess.Popen(
            [*words[:at], "--info-fd", str(theirs), *words[at:]],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=[theirs],
            start_new_session=True,
        )
        os.close(theirs)
        first = _first_process(facts)
        try:
            _wait(process, folder, limit_s)
        finally:
            process.kill()
            process.wait()
            _wait_for_all(first)
        if process.returncode:
            raise InnolabError(f"it failed in the sandbox: {_end_of(said)}")


def _first_process(facts: IO[str]) -> int | None:
    """Return a handle of the sandbox's first process, with which all others end."""
    try:
        return os.pidfd_open(json.loads(facts.read())["child-pid"])
    except (ValueError, LookupError, ProcessLookupError):
        return None


def _wait(process: subprocess.Popen[bytes], folder: Path, limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while (left_s := end - time.monotonic()) > 0:
        try:
            process.wait(min(left_s, _LOOK_EVERY_S))
            return
        except subprocess.TimeoutExpired:
            leftovers.refuse_too_much(folder)
    raise InnolabError(
        f"It did not end within {limit_s:g} s, and was killed with all that it had started."
    )


def _wait_for_all(first: int | None) -> None:
    """Return once no process of the sandbox is left to change what it leaves.

    The first process dies with bubblewrap, and counts as dead only after all others are.
    """
    if first is None:
        return
    try:
        gone, _, _ = select.select([first], [], [], _END_LIMIT_S)
    finally:
        os.close(first)
    if not gone:
        raise InnolabError(
            f"Processes of the sandbox live on {_END_LIMIT_S} s after it was killed. Look for them "
            f"with: pgrep -u {machine.SERVER_USER}"
        )


def _end_of(said: IO[bytes]) -> str:
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - 4 * MOST_SAID))
    return plain(said.read().decode(errors="replace"))


def _inside(study_name: str, folder: str, source: str) -> int:
    """Render within the walls and return the exit status; an error goes to standard error."""
    from innolab.report import render

    Path(os.environ["HOME"]).mkdir()
    try:
        render.render(studies.find(study_name), Path(folder), Path(source))
    except InnolabError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(_inside(*sys.argv[1:]))
