"""Carry out a plan, step by step."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from .storage_contents import erase
from .storage_files import forget, mdadm_conf, set_block, write_record
from .storage_geometry import StorageError
from .storage_host import SYS_BLOCK, exported, read, run
from .storage_live import progress
from .storage_plan import BACKUPS, Plan, Step

_SAMPLE_BYTES, _SAMPLES = 2**18, 32
# Quick enough for any disk; md's own limit leaves room for a load, of which there is none here.
_SYNC_KIB_PER_S = "10000000"
_STALLED_S, _LINK_S = 600, 30


def carry_out(plan: Plan, nodes: list[str]) -> None:
    """Carry out all steps of a plan.

    Raises
    ------
    StorageError
        Where one fails. It names the step; the record on the host tells what is ours by then.
    """
    Path(BACKUPS).mkdir(parents=True, exist_ok=True, mode=0o700)
    rest = list(plan.steps)
    with _udev_kept_away(nodes):
        while rest and rest[0].kind != "wait":
            _carry_out(rest.pop(0), plan)
    for step in rest:
        _carry_out(step, plan)


def _carry_out(step: Step, plan: Plan) -> None:
    try:
        if step.kind == "run":
            with ThreadPoolExecutor(len(step.commands)) as pool:
                list(pool.map(_command, step.commands))
        else:
            _KINDS[step.kind](step)
    except (StorageError, OSError) as error:
        at, of = plan.steps.index(step) + 1, len(plan.steps)
        raise StorageError(
            f"step {at} of {of} failed: {error}. The steps before it are done and what is ours is "
            "recorded; repair the cause, then plan again with replace_ours: true"
        ) from None


def _command(words: tuple[str, ...]) -> None:
    # wipefs keeps what it erases in the home folder.
    run(list(words), {"HOME": BACKUPS})


def _expect(step: Step) -> None:
    """Raise where a disk no longer carries the array that is to be erased."""
    paths, uuid = step.given
    for path in paths:
        said = exported(run(["mdadm", "--examine", "--export", path]))
        if said.get("MD_UUID") != uuid:
            raise StorageError(f"{path} carries {said.get('MD_UUID')}, not {uuid}")


def _zeros(step: Step) -> None:
    """Raise where a sample is not zero: md would take unequal copies for equal ones."""
    blank = bytes(_SAMPLE_BYTES)

    def look(path: str) -> None:
        with Path(path).open("rb", buffering=0) as file:
            last = file.seek(0, os.SEEK_END) - _SAMPLE_BYTES
            # A read from the page cache would tell of what was, not of what is.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for sample in range(_SAMPLES):
                offset = last * sample // (_SAMPLES - 1) // 4096 * 4096
                file.seek(offset)
                if file.read(_SAMPLE_BYTES) != blank:
                    raise StorageError(f"{path} is not zero from byte {offset} on")

    with ThreadPoolExecutor(len(step.given)) as pool:
        list(pool.map(look, step.given))


def _erase(step: Step) -> None:
    with ThreadPoolExecutor(len(step.given)) as pool:
        list(pool.map(erase, step.given))


def _write_cache(step: Step) -> None:
    path, value = step.given
    (SYS_BLOCK / Path(path).resolve().name / "queue/write_cache").write_text(value)


def wait(uuid: str) -> None:
    """Wait until an array has no resync and misses no member, however long that takes.

    Raises
    ------
    StorageError
        Where it is degraded for good, or its resync stands still.
    """
    link = Path(f"/dev/disk/by-id/md-uuid-{uuid}")
    seen, since = "", time.monotonic()
    while not link.exists():  # udev lags behind
        if time.monotonic() > since + _LINK_S:
            raise StorageError(f"the array {uuid} has no {link}; is udev running?")
        time.sleep(0.05)
    node = link.resolve().name
    md = SYS_BLOCK / node / "md"
    with _resync_at_full_speed(md):
        while (now := progress(node)) != {"sync_action": "idle", "degraded": 0}:
            state = f"{now} {read(md / 'sync_completed')}"
            if state != seen:
                seen, since = state, time.monotonic()
            idle_s = time.monotonic() - since
            # A rebuild may start a moment after the array.
            if idle_s > (10 if now["sync_action"] == "idle" else _STALLED_S):
                raise StorageError(f"the array {node} does not become whole: {state}")
            time.sleep(0.2)


@contextmanager
def _resync_at_full_speed(md: Path) -> Iterator[None]:
    speeds = [md / name for name in ("sync_speed_max", "sync_speed_min")]
    if read(md / "sync_action") == "idle":
        yield
        return
    for path in speeds:
        path.write_text(_SYNC_KIB_PER_S)
    try:
        yield
    finally:
        for path in speeds:
            path.write_text("system")


@contextmanager
def _udev_kept_away(nodes: list[str]) -> Iterator[None]:
    """Hold udev's own locks: it would assemble an array again between two steps of its teardown."""
    with ExitStack() as stack:
        for node in nodes:
            file = stack.enter_context(Path(node).open("rb", buffering=0))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


_KINDS = {
    "record": lambda step: write_record(step.given),
    "conf": lambda step: set_block(mdadm_conf(), step.given),
    "forget": lambda step: forget(),
    "expect": _expect,
    "zeros": _zeros,
    "erase": _erase,
    "write_cache": _write_cache,
    "wait": lambda step: wait(step.given),
}
