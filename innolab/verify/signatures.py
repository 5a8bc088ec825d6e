"""Signatures: who vouches for a report. Digests show that it is unchanged, not who measured it.

A signature lies in the folder `signatures` of a report, beside what the manifest seals, so that
people may sign a report long after it was made. It is two files, named after the signer's key: an
in-toto statement over the manifest, and the SSH signature of that statement. A reviewer needs no
innolab to check one, in a report's folder and with the allowed signers in a file of their own:

    ssh-keygen -Y verify -f allowed_signers -I alice@example.org -n innolab-report \
        -s signatures/SHA256-KEY.json.sig < signatures/SHA256-KEY.json
    sha256sum manifest.json    # the digest that the statement names

A file of allowed signers has a line for each: `alice@example.org ssh-ed25519 AAAA...`.
"""

import datetime
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from innolab.base import files, parsing
from innolab.base.errors import InputError
from innolab.base.quoting import one_line
from innolab.report import folders, manifest
from innolab.report.render import VERDICTS_FILE

FOLDER = folders.SIGNATURES
NAMESPACE = "innolab-report"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
# No address to visit: a name that only innolab gives, in a domain that nobody can own.
PREDICATE_TYPE = "https://innolab.invalid/report/v1"
UNSIGNED = "unsigned: nobody vouches for it"
# Bounds on what a stranger's report may hold. A statement has 1 KB, an RSA-4096 signature 2 KB.
_MOST_BYTES = 64 * 1024
_MOST_FILES = 100
_CHECK_LIMIT_S = 10
# By how much the clocks of who measured and who signs may differ.
_CLOCKS_APART = datetime.timedelta(minutes=10)
# The passphrase is typed, or a hardware key is touched, in this time.
_SIGN_LIMIT_S = 300
_STATEMENT_NAME = re.compile(r"SHA256-[A-Za-z0-9_-]{43}\.json")
_GOOD = re.compile(rf'Good "{NAMESPACE}" signature with \S+ key (SHA256:[A-Za-z0-9+/]{{43}})\n')


def sign(report: Path, key: Path, faults_of: Callable[[Path], list[str]]) -> Path:
    """Sign a report that holds, and return the statement's file; its signature is next to it.

    A second signature by the same key takes the place of the first.

    Parameters
    ----------
    faults_of : verifies a report and returns its faults: who signs what does not hold vouches for a
        forgery
    key : a private SSH key, or a public one whose private part an agent holds. `ssh-keygen` reads
        it and asks on the terminal for a passphrase; innolab never opens it.

    Raises
    ------
    InputError
        If the key or ssh-keygen is not available, or the report does not hold. Nothing was written.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        raise InputError(
            "A report is signed by ssh-keygen, which is not on the PATH. Install it with: "
            "apt install openssh-client"
        )
    if not key.is_file():
        raise InputError(
            f"There is no key {key}. Name your SSH key's file, or make a key with: "
            "ssh-keygen -t ed25519"
        )
    body = _sound(report, faults_of)
    try:
        # Canonical: sorted keys, no blanks, one line.
        said = json.dumps(_statement(report, body, _now()), sort_keys=True, separators=(",", ":"))
        statement = f"{said}\n"
        signature, fingerprint = _signed(program, key, statement)
    except ValueError as error:
        raise InputError(f"{report} cannot be signed: {error}. Nothing was written.") from None
    place = report / FOLDER / f"{_file_name(fingerprint)}.json"
    try:
        place.parent.mkdir(exist_ok=True)
        files.write(place, statement)
        files.write(_signature_of(place), signature)
    except OSError as error:
        raise InputError(
            f"{place.parent} cannot be written ({error.strerror}). Sign a copy that is yours."
        ) from None
    return place


def check(report: Path, signers: Path | None = None) -> tuple[list[str], list[str]]:
    """Return the faults of a report's signatures, and what they say of its signers.

    Needs no network. A signature by a stranger is no fault: the note says that its key is unknown.

    Parameters
    ----------
    signers : a file of allowed signers, as ssh-keygen reads it; the user's own if none is given

    Raises
    ------
    InputError
        If the file of allowed signers, named here or by INNOLAB_SIGNERS, does not exist, or the
        manifest is damaged.
    """
    allowed = signers_file(signers)
    faults, statements = _listed(report)
    notes = []
    for name in statements:
        try:
            notes.append(_checked(report, name, allowed))
        except ValueError as error:
            faults.append(f"{FOLDER}/{name}: {error}")
    return faults, notes if faults or notes else [UNSIGNED]


def signers_file(named: Path | None) -> Path | None:
    """Return the file of allowed signers: as named, else INNOLAB_SIGNERS, the user's own, git's.

    Raises
    ------
    InputError
        If the named one does not exist.
    """
    if named is None and (of_environment := os.environ.get("INNOLAB_SIGNERS")):
        named = Path(of_environment)
    if named is not None:
        if not named.is_file():
            raise InputError(
                f"There is no file of allowed signers {named}. It holds a line for each signer: "
                "alice@example.org ssh-ed25519 AAAA..."
            )
        return named.absolute()
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    own = Path(base) / "innolab" / "allowed_signers"
    return own if own.is_file() else _signers_of_git()


def _signers_of_git() -> Path | None:
    # Asked in / so that no checkout, which may be a stranger's, has a say in it.
    words = ["git", "config", "--get", "--type=path", "gpg.ssh.allowedSignersFile"]
    try:
        done = subprocess.run(
            words, cwd="/", capture_output=True, text=True, timeout=_CHECK_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = Path(done.stdout.strip())
    return found if found.is_absolute() and found.is_file() else None


def _sound(report: Path, faults_of: Callable[[Path], list[str]]) -> dict[str, Any]:
    """Return the manifest of a report that is as it was sealed, and follows from its runs.

    Raises
    ------
    InputError
        If it is not.
    """
    body = manifest.read(report)
    fault = None
    if manifest.seal_of(body) != body.get("seal"):
        fault = f"{folders.MANIFEST_FILE} was changed after it was sealed"
    elif body.get("version") != report.resolve().name:
        fault = f"it is version {body.get('version')} under another name"
    elif strangers := folders.foreign(report):
        fault = strangers[0]
    elif changed := _changed(report, body["files"]):
        fault = f"{_plain(changed[0])} is not as it was sealed"
    elif faults := faults_of(report):
        fault = _plain(faults[0])
    if fault:
        raise InputError(
            f"{report} is damaged ({fault}), and a damaged report is not signed. Take it from its "
            f"source, and see: innolab verify {report}"
        )
    return body


def _changed(report: Path, sealed: dict[str, str]) -> list[str]:
    present = manifest.digests(report)
    names = sorted(present.keys() | sealed.keys())
    return [name for name in names if present.get(name) != sealed.get(name)]


def _statement(report: Path, body: dict[str, Any], signed_at: str) -> dict[str, Any]:
    """Return the statement that a signer makes on a report as it is.

    Raises
    ------
    ValueError
        If the report's verdicts cannot be read.
    """
    found = parsing.json_file(report / VERDICTS_FILE)
    try:
        verdicts = dict(Counter(str(verdict["verdict"]) for verdict in found))
    except (LookupError, TypeError):
        raise ValueError(f"{VERDICTS_FILE} holds no list of verdicts") from None
    return {
        "_type": STATEMENT_TYPE,
        "subject": [
            {
                "name": folders.MANIFEST_FILE,
                "digest": {"sha256": manifest.digest(report / folders.MANIFEST_FILE)},
            }
        ],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            # A published table has no scale.
            **{n: body[n] for n in ("study", "version", "scale", "runs") if n in body},
            "verdicts": verdicts,
            "signed_at": signed_at,
        },
    }


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _signed(program: str, key: Path, statement: str) -> tuple[str, str]:
    """Return the signature of a statement by a key, and the key's fingerprint.

    Raises
    ------
    InputError
        If ssh-keygen refuses the key.
    """
    with tempfile.TemporaryDirectory(prefix="innolab-sign-") as place:
        text = Path(place) / "statement.json"
        text.write_text(statement)
        words = [program, "-Y", "sign", "-n", NAMESPACE, "-f", str(key.absolute()), str(text)]
        done = _run(words, limit_s=_SIGN_LIMIT_S)
        if done.returncode:
            raise InputError(
                f"ssh-keygen does not sign with {key}: {_plain(done.stderr)}. Name a private SSH "
                "key, or a public one whose private part your agent holds. Nothing was written."
            )
        signature = _signature_of(text)
        return signature.read_text(), _key_of(program, signature, statement)


def _listed(report: Path) -> tuple[list[str], list[str]]:
    folder = report / FOLDER
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return [f"{FOLDER}: it is not a folder"], []
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    if len(names) > _MOST_FILES:
        return [f"{FOLDER}: it holds {len(names):,} files, and {_MOST_FILES} are allowed"], []
    statements = [name for name in names if _STATEMENT_NAME.fullmatch(name)]
    expected = {*statements, *(f"{name}.sig" for name in statements)}
    stray = [name for name in names if name not in expected]
    faults = [f"{FOLDER}/{_plain(name)}: it is not part of a signature" for name in stray]
    return faults, statements


def _checked(report: Path, name: str, allowed: Path | None) -> str:
    """Return who signed a statement, and when.

    Raises
    ------
    ValueError
        If the signature does not hold, or does not speak of this report.
    """
    place = report / FOLDER / name
    statement = parsing.read_text(place, _MOST_BYTES)
    try:
        signature = parsing.read_text(_signature_of(place), _MOST_BYTES)
    except ValueError as error:
        raise ValueError(f"its signature {name}.sig does not hold: {error}") from None
    day = _signed_at(report, statement).date()
    program = shutil.which("ssh-keygen")
    if program is None:
        return (
            f"{FOLDER}/{name} was not checked, for ssh-keygen is not on the PATH. Install it with: "
            "apt install openssh-client"
        )
    with tempfile.TemporaryDirectory(prefix="innolab-verify-") as temporary:
        # A copy that is a regular file and remains so while ssh-keygen reads it.
        copy = Path(temporary) / "signature"
        copy.write_text(signature)
        fingerprint = _key_of(program, copy, statement)
        if name != f"{_file_name(fingerprint)}.json":
            raise ValueError(f"it is named after another key than {fingerprint}, which signed it")
        return f"signed by {_signer(program, copy, statement, fingerprint, allowed)} on {day}"


def _signed_at(report: Path, text: str) -> datetime.datetime:
    """Return when a statement says that it was signed, once it speaks of this very report."""
    statement = parsing.from_json(text)
    try:
        digest = statement["subject"][0]["digest"]["sha256"]
        signed_at = statement["predicate"]["signed_at"]
        day = datetime.datetime.fromisoformat(signed_at)
    except (LookupError, TypeError, ValueError):
        raise ValueError("it is no statement on a report") from None
    if digest != manifest.digest(report / folders.MANIFEST_FILE):
        raise ValueError(f"it is a statement on another {folders.MANIFEST_FILE}")
    body = manifest.read(report)
    if statement != _statement(report, body, signed_at):
        raise ValueError("what it says of the report is not what the report holds")
    if day.tzinfo is None:
        raise ValueError(f"its time {signed_at} names no time zone")
    # Reports of innolab 0.1.0 do not say when they were sealed; their version has the day.
    day_of_version = f"{body['version'][: len('2026-01-31')]}T00:00:00+00:00"
    sealed_at = datetime.datetime.fromisoformat(body.get("sealed_at") or day_of_version)
    if day < sealed_at - _CLOCKS_APART:
        raise ValueError(f"it was signed at {signed_at}, before the report was sealed")
    return day


def _key_of(program: str, signature: Path, statement: str) -> str:
    words = [program, "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)]
    done = _run(words, statement)
    good = _GOOD.fullmatch(done.stdout)
    if done.returncode or not good:
        raise ValueError(f"its signature does not hold: {_plain(done.stderr + done.stdout)}")
    return good[1]


def _signer(
    program: str, signature: Path, statement: str, fingerprint: str, allowed: Path | None
) -> str:
    stranger = f"a key {fingerprint} that is not among your signers"
    if allowed is None:
        return stranger
    given = ["-f", str(allowed), "-s", str(signature)]
    # The present moment counts, not the one that the signer gives: who has stolen a key that
    # has expired may date a signature back.
    found = _run([program, "-Y", "find-principals", *given])
    said = found.stderr
    for identity in found.stdout.splitlines() if found.returncode == 0 else []:
        words = [program, "-Y", "verify", "-I", identity, "-n", NAMESPACE, *given]
        done = _run(words, statement)
        if done.returncode == 0:
            return f"{_plain(identity)} ({fingerprint})"
        said += done.stderr
    # ssh-keygen says the reason with the line of the file that has it.
    reasons = [line for line in said.splitlines() if line.startswith(f"{allowed}:")]
    if reasons:
        return f"a key {fingerprint} that your signers do not allow ({_plain(reasons[0])})"
    return stranger


def _run(
    words: list[str], given: str | None = None, limit_s: float = _CHECK_LIMIT_S
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words,
            input=given or "",
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"no answer within {limit_s:g} s")


def _signature_of(statement: Path) -> Path:
    return statement.with_name(statement.name + ".sig")


def _file_name(fingerprint: str) -> str:
    """Return a fingerprint as a file name.

    >>> _file_name("SHA256:ab/c+d")
    'SHA256-ab_c-d'
    """
    return fingerprint.replace(":", "-").replace("/", "_").replace("+", "-")


def _plain(text: str) -> str:
    """Return somebody else's text as one short line that does nothing to a terminal."""
    return one_line(text).rstrip(".")
