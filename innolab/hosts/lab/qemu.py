"""The lab's guest as a process: QEMU's words, who runs it, and how it answers over ssh."""

import csv
import fcntl
import json
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from innolab.hosts.lab.image import Image
from innolab.hosts.lab.machine import LabError, run

QEMU = "qemu-system-x86_64"
SOFTWARE = "tcg"
_ACCELERATORS = {"kvm": "kvm", SOFTWARE: "tcg,thread=multi"}
_MOST_DISKS = 24
_PROBE_LIMIT_S = 15  # software emulation takes 2
_COMMON = ["-nodefaults", "-no-user-config", "-machine", "q35", "-display", "none", "-cpu", "max"]
# mitigations: they guard secrets between programs, of which there are none here, and their
# barriers cost an emulated processor many times what they cost a real one. tsc: the kernel would
# give up the cheapest clock for one of its warnings, and sysbench asks the time at every query.
_KERNEL = "console=ttyS0 quiet systemd.show_status=false mitigations=off tsc=reliable"
_KERNEL += " net.ifnames=0 panic=5"


class GuestShape(NamedTuple):
    """What a guest has."""

    cpus: int
    memory_bytes: int
    disks: int
    disk_bytes: int
    device: str
    limits: dict[str, int]  # QEMU's throttling options of each disk

    @classmethod
    def of(cls, record: dict[str, Any]) -> "GuestShape":
        """Return the shape of the guest that a lab.json describes."""
        values = {name: record[name] for name in cls._fields if name in record}
        disks = record["disks"]
        return cls(**values | {"disks": len(disks), "disk_bytes": disks[0]["size_bytes"]})

    def require_sound(self) -> None:
        """Raise if no such guest can be."""
        wanted = {
            "cpus should be 1 or more": self.cpus >= 1,
            # Each is a separate device on one bus.
            f"disks should be 1 to {_MOST_DISKS}": 1 <= self.disks <= _MOST_DISKS,
            "disk_bytes should be a multiple of a MiB": self.disk_bytes > 0
            and self.disk_bytes % 2**20 == 0,
        }
        for requirement, is_met in wanted.items():
            if not is_met:
                raise LabError(f"{requirement}, but {self} was asked for")


def limits(devices: Path, device: str) -> dict[str, int]:
    """Return QEMU's throttling options of a profile in a file of them.

    Equal operations a second for reads and writes mean one arm that serves both.
    """
    with devices.open(newline="") as file:
        profiles = {row["name"]: row for row in csv.DictReader(file)}
    if device not in profiles:
        known = ", ".join(sorted(profiles))
        raise LabError(f"{devices} has no device {device}; name one of {known}")
    row = profiles[device]
    names = {
        "iops-read": "read_iops",
        "iops-write": "write_iops",
        "bps-read": "read_bytes_per_s",
        "bps-write": "write_bytes_per_s",
    }
    found = {option: int(row[name]) for option, name in names.items() if row[name]}
    if row["read_iops"] and row["read_iops"] == row["write_iops"]:
        found["iops-total"] = found.pop("iops-read")
        del found["iops-write"]
    return found


class Guest:
    """The folder of a lab, and the QEMU that may run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.image = folder, Image(folder / "image")
        self.record, self.system = folder / "lab.json", folder / "system.img"
        self.new_record = folder / "lab.json.new"
        self.disks, self.ssh_config = folder / "disks", folder / "ssh_config"
        self.known_hosts, self.console = folder / "known_hosts", folder / "console.log"
        self.pid_file, self.control = folder / "qemu.pid", folder / "qmp.sock"

    def disk(self, number: int) -> Path:
        """Return the image of a data disk, counted from 1."""
        return self.disks / f"innolab-{number}.img"

    def pid(self) -> int | None:
        """Return the QEMU of this lab if it runs.

        QEMU locks its pid file as long as it lives, and the kernel says who holds a lock: unlike
        a number in a file that can never be another program which got the same number later.
        """
        try:
            file = os.open(self.pid_file, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
        finally:
            os.close(file)
        if kind == fcntl.F_UNLCK:
            return None
        if pid <= 0:
            raise LabError(f"the lab in {self.folder} runs in another container; work from there")
        return int(pid)

    def start(self, shape: GuestShape, accelerator: str) -> int:
        """Start QEMU and return the port of ssh; the port of last time if that is free."""
        for port in (self._last_port(), 0, 0, 0):
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    free.bind(("127.0.0.1", port))
                except OSError:
                    continue
                port = free.getsockname()[1]
            self._describe_ssh(port)
            self.console.unlink(missing_ok=True)
            try:
                # The paths of sockets are short by law, those of folders not: so we go there.
                run(*self.argv(shape, accelerator, port), cwd=self.folder)
            except LabError as error:
                if "host forwarding" in str(error):
                    continue  # somebody took the port
                raise
            return port
        raise LabError("no free port for the guest's ssh on 127.0.0.1; end what holds them all")

    def _last_port(self) -> int:
        with suppress(OSError, ValueError):
            return int(json.loads(self.record.read_text())["port"])
        return 0

    def argv(self, shape: GuestShape, accelerator: str, port: int) -> list[str]:
        """Return the words that start the guest, with paths as seen from the folder."""
        disks = {self.system: ("innolab-system", "cache=writeback")}
        # Past the host's cache, else a disk's reads could be quicker than its limit.
        throttling = "".join(f",throttling.{name}={n}" for name, n in shape.limits.items())
        for number in range(1, shape.disks + 1):
            disks[self.disk(number)] = (f"innolab-{number}", f"cache=none{throttling}")
        words = [QEMU, *_COMMON, "-name", "innolab-lab", "-accel", _ACCELERATORS[accelerator]]
        words += ["-smp", str(shape.cpus), "-m", f"{shape.memory_bytes}B"]
        words += ["-kernel", "image/vmlinuz", "-initrd", "image/initrd.img", "-append", _KERNEL]
        words += ["-serial", f"file:{self.console.name}", "-device", "virtio-rng-pci"]
        words += ["-qmp", f"unix:{self.control.name},server=on,wait=off"]
        words += ["-pidfile", self.pid_file.name, "-daemonize"]
        forward = f"hostfwd=tcp:127.0.0.1:{port}-:22"
        words += ["-netdev", f"user,id=net,restrict=on,ipv6=off,{forward}"]
        words += ["-device", "virtio-net-pci,netdev=net,romfile="]
        for file, (serial, options) in disks.items():
            path = file.relative_to(self.folder)
            # A full disk of this machine is an error in the guest, not a guest that stands still.
            drive = f"if=none,id={serial},file={path},format=raw,aio=threads,discard=unmap"
            words += ["-drive", f"{drive},werror=report,rerror=report,{options}"]
            words += ["-device", f"virtio-blk-pci,drive={serial},serial={serial},write-cache=on"]
        return words

    def _describe_ssh(self, port: int) -> None:
        """Write down how the guest is reached, and by which key it proves to be itself."""
        key = " ".join(self.image.host_key.read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {key}\n")
        lines = {
            "HostName": "127.0.0.1",
            "Port": port,
            "User": "root",
            "IdentityFile": f'"{self.image.key}"',
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": 30,
            "ServerAliveInterval": 15,
            "ServerAliveCountMax": 8,
        }
        text = "".join(f"    {name} {value}\n" for name, value in lines.items())
        self.ssh_config.write_text(f"Host lab\n{text}")

    def ssh(self, command: str, limit_s: float = 60) -> str:
        """Run a command in the guest and return what it wrote."""
        words = ["ssh", "-F", str(self.ssh_config), "lab", command]
        try:
            return run(*words, limit_s=limit_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"the guest did not answer '{command}' in {limit_s:.0f} s") from None

    def wait(self, port: int, disks: int, limit_s: float) -> str:
        """Return the guest's machine id once it can be used with all its disks."""
        begin = time.monotonic()
        while not _greets(port, 1 + (time.monotonic() - begin) / 10):
            if not self.pid():
                raise LabError(f"QEMU ended while the guest started{self._last_words()}")
            if time.monotonic() > begin + limit_s:
                slow = f"the guest does not answer after {limit_s:.0f} s{self._last_words()}"
                raise LabError(f"{slow}; take it down with: make lab-down")
        answer = self.ssh("udevadm settle; cat /etc/machine-id; ls /dev/disk/by-id").split()
        missing = {f"virtio-innolab-{n + 1}" for n in range(disks)} - set(answer)
        if missing:
            raise LabError(
                f"the guest has no {', '.join(sorted(missing))}; take it down with: make lab-down"
            )
        return answer[0]

    def _last_words(self) -> str:
        lines = []
        with suppress(FileNotFoundError):
            lines = self.console.read_text(errors="replace").splitlines()[-5:]
        return f"; its console ends with: {' | '.join(lines)}" if lines else ""

    def stop(self, gently: bool) -> None:
        """End QEMU: gently by the guest's own poweroff if it hears us, else by signals."""
        pid = self.pid()
        if not pid:
            return
        handle = os.pidfd_open(pid)
        try:
            if self.pid() != pid:  # it has ended, and the number may be another's now
                return
            if gently:
                with suppress(LabError):
                    self.ssh("systemctl poweroff", limit_s=15)
            patience_s = 20 if gently else 0
            for limit_s, then in ((patience_s, signal.SIGTERM), (10, signal.SIGKILL), (10, None)):
                if select.select([handle], [], [], limit_s)[0]:
                    return
                if then:
                    signal.pidfd_send_signal(handle, then)
        finally:
            os.close(handle)
        raise LabError(
            f"QEMU ({pid}) does not end; it waits for a disk of this machine, or is stuck"
        )

    def data_disks(self) -> list[Path]:
        """Return the images of the data disks that there are."""
        return sorted(self.disks.glob("innolab-*.img"))

    def files(self) -> list[Path]:
        """Return all files of a lab that runs, but for image and data disks."""
        described = [self.record, self.ssh_config, self.known_hosts]
        return [*described, self.system, self.console, self.pid_file, self.control]

    def remove(self) -> None:
        """Remove all of the lab but its image."""
        for file in [*self.files(), self.new_record, *self.data_disks()]:
            file.unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            self.disks.rmdir()

    def probe(self) -> str:
        """Return the accelerator for this machine.

        /dev/kvm may be there and its guests hang or stop, so one that reaches user space counts.
        The answer is kept with the image until kernel or QEMU change.
        """
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return SOFTWARE
        host = f"{platform.release()}, {run(QEMU, '--version').splitlines()[0]}"
        kept = self.image.folder / "accelerator.json"
        with suppress(OSError, ValueError):
            answer = json.loads(kept.read_text())
            if answer["host"] == host:
                return str(answer["accelerator"])
        accelerator = "kvm" if self._runs_on("kvm") else SOFTWARE
        kept.write_text(json.dumps({"host": host, "accelerator": accelerator}) + "\n")
        return accelerator

    def _runs_on(self, accelerator: str) -> bool:
        words = [QEMU, *_COMMON, "-accel", _ACCELERATORS[accelerator], "-m", "256M"]
        words += [
            "-serial",
            "stdio",
            "-kernel",
            "image/vmlinuz",
            "-initrd",
            "image/initrd.img",
            "-no-reboot",
        ]
        words += ["-append", f"{_KERNEL} innolab.probe"]
        try:
            done = subprocess.run(
                words, cwd=self.folder, capture_output=True, timeout=_PROBE_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0 and b"innolab: probed" in done.stdout


def _greets(port: int, limit_s: float) -> bool:
    """Whether an ssh server says who it is; QEMU takes connections long before there is one."""
    end = time.monotonic() + limit_s
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), limit_s) as server:
        server.settimeout(limit_s)
        if server.recv(4) == b"SSH-":
            return True
    time.sleep(max(0.0, min(end - time.monotonic(), 0.3)))
    return False
