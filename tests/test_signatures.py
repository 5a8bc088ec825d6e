"""Who vouches for a report: real keys, real signatures, and what a stranger may do to them."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import todays

from innolab.base.errors import InputError
from innolab.report import folders, manifest
from innolab.verify import signatures

ROOT = Path(__file__).parent.parent
ALICE, BOB = "alice@example.org", "bob@example.org"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A copy of a published report, which its reader may sign."""
    source = todays("multi-buffer-pool")
    shutil.copytree(source, tmp_path / source.name)
    shutil.rmtree(tmp_path / source.name / signatures.FOLDER, ignore_errors=True)
    return tmp_path / source.name


def made_key(place: Path, name: str, passphrase: str = "") -> Path:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", place / name]
    subprocess.run(words, check=True)
    return place / name


@pytest.fixture
def alice(tmp_path: Path) -> Path:
    return made_key(tmp_path, "alice")


@pytest.fixture
def bob(tmp_path: Path) -> Path:
    return made_key(tmp_path, "bob")


@pytest.fixture(autouse=True)
def nobody_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No signers but those of the test: none of this machine's user."""
    monkeypatch.delenv("INNOLAB_SIGNERS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def sign(report: Path, key: Path) -> Path:
    """Sign a report that is taken as verified, which takes a second here and not twenty."""
    return signatures.sign(report, key, lambda _: [])


def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text().strip()


def fingerprint(key: Path) -> str:
    words = ["ssh-keygen", "-lf", key.with_suffix(".pub")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]


def signers(place: Path, *lines: str) -> Path:
    file = place / "allowed_signers"
    file.write_text("".join(line + "\n" for line in lines))
    return file


def signed_on(place: Path) -> str:
    """Return the day of a statement, which need not be that of the test's start."""
    return str(json.loads(place.read_text())["predicate"]["signed_at"])[: len("2020-01-01")]


def reseal(report: Path, change: Callable[[dict], None]) -> None:
    """Change a manifest as a forger who knows how it is sealed."""
    body = manifest.read(report)
    change(body)
    body["seal"] = manifest.seal_of(body)
    (report / folders.MANIFEST_FILE).write_text(json.dumps(body, indent=1) + "\n")


def test_an_unsigned_report_is_said_to_be_so(report: Path) -> None:
    assert signatures.check(report) == ([], ["unsigned: nobody vouches for it"])


def test_signers_are_named(report: Path, alice: Path, bob: Path, tmp_path: Path) -> None:
    places = [sign(report, key) for key in (alice, bob)]
    known = signers(tmp_path, f"{ALICE} {public(alice)}", f'{BOB} namespaces="git" {public(bob)}')
    faults, notes = signatures.check(report, known)
    assert faults == []
    assert len(set(places)) == len(notes) == 2
    assert f"signed by {ALICE} ({fingerprint(alice)}) on {signed_on(places[0])}" in notes
    # Bob's key may sign commits, by this reader's file, and no report.
    theirs = next(note for note in notes if ALICE not in note)
    assert theirs.startswith(f"signed by a key {fingerprint(bob)} that your signers do not allow (")
    assert "namespace" in theirs


def test_a_stranger_is_no_fault(report: Path, alice: Path, bob: Path, tmp_path: Path) -> None:
    day = signed_on(sign(report, alice))
    stranger = f"signed by a key {fingerprint(alice)} that is not among your signers on {day}"
    assert signatures.check(report) == ([], [stranger])
    assert signatures.check(report, signers(tmp_path, f"{BOB} {public(bob)}")) == ([], [stranger])


def test_a_reviewer_needs_ssh_keygen_alone(report: Path, alice: Path, tmp_path: Path) -> None:
    place = sign(report, alice)
    known = signers(tmp_path, f"{ALICE} {public(alice)}")
    words = ["ssh-keygen", "-Y", "verify", "-f", known, "-I", ALICE, "-n", "innolab-report"]
    with place.open() as statement:
        done = subprocess.run([*words, "-s", f"{place}.sig"], stdin=statement)
    assert done.returncode == 0
    said = json.loads(place.read_text())
    digest = subprocess.run(["sha256sum", "manifest.json"], cwd=report, capture_output=True)
    assert said["subject"][0]["digest"]["sha256"] == digest.stdout.split()[0].decode()
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicate"]["study"] == "multi-buffer-pool"
    assert sum(said["predicate"]["verdicts"].values()) == len(
        json.loads((report / "verdicts.json").read_text())
    )


def test_a_signature_leaves_the_seal_as_it_was(report: Path, alice: Path) -> None:
    before = manifest.digests(report)
    place = sign(report, alice)
    assert manifest.digests(report) == before == manifest.read(report)["files"]
    assert sign(report, alice) == place
    assert {path.name for path in place.parent.iterdir()} == {place.name, f"{place.name}.sig"}


def test_a_key_that_has_expired_vouches_no_more(report: Path, alice: Path, tmp_path: Path) -> None:
    sign(report, alice)
    known = signers(tmp_path, f'{ALICE} valid-before="20200101" {public(alice)}')
    faults, notes = signatures.check(report, known)
    assert faults == []
    assert "do not allow" in notes[0] and "expired" in notes[0] and ALICE not in notes[0]


def test_a_changed_manifest_is_another(report: Path, alice: Path) -> None:
    place = sign(report, alice)
    reseal(report, lambda body: body["runs"].update(failed=body["runs"]["failed"] + 1))
    name = f"signatures/{place.name}"
    assert signatures.check(report) == (
        [f"{name}: it is a statement on another manifest.json"],
        [],
    )


def test_a_changed_statement_is_not_what_was_signed(report: Path, alice: Path) -> None:
    place = sign(report, alice)
    before = f'"signed_at":"{signed_on(place)}'
    place.write_text(place.read_text().replace(before, '"signed_at":"2099-01-01'))
    [fault], notes = signatures.check(report)
    assert fault.startswith(f"signatures/{place.name}: its signature does not hold")
    assert notes == []


def test_a_statement_must_agree_with_its_report(report: Path, alice: Path) -> None:
    """Alice signs a lie, by hand: the digest is right, the verdicts are not."""
    place = sign(report, alice)
    said = json.loads(place.read_text())
    said["predicate"]["verdicts"] = {"reproduced": 99}
    place.write_text(json.dumps(said))
    by_hand(place, alice, "innolab-report")
    [fault], _ = signatures.check(report)
    assert fault == (
        f"signatures/{place.name}: what it says of the report is not what the report holds"
    )


def by_hand(place: Path, key: Path, namespace: str) -> None:
    Path(f"{place}.sig").unlink()
    words = ["ssh-keygen", "-Y", "sign", "-n", namespace, "-f", key, place]
    subprocess.run(words, check=True, capture_output=True)


def test_a_signature_for_another_purpose_does_not_count(report: Path, alice: Path) -> None:
    place = sign(report, alice)
    by_hand(place, alice, "git")
    [fault], _ = signatures.check(report)
    assert place.name in fault and "namespace" in fault


def test_a_statement_bears_the_name_of_its_key(report: Path, alice: Path, bob: Path) -> None:
    of_alice, of_bob = (sign(report, key) for key in (alice, bob))
    for end in ("", ".sig"):
        shutil.copy(f"{of_bob}{end}", f"{of_alice}{end}")
    faults, notes = signatures.check(report)
    assert len(notes) == 1 and fingerprint(bob) in notes[0]
    assert faults == [
        f"signatures/{of_alice.name}: it is named after another key than {fingerprint(bob)}, "
        "which signed it"
    ]


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"a": 1, "a": 2}', '{"subject": [3]}', "[" * 9999]
)
def test_what_is_no_statement_is_a_fault(report: Path, alice: Path, text: str) -> None:
    place = sign(report, alice)
    place.write_text(text)
    [fault], _ = signatures.check(report)
    assert fault.startswith(f"signatures/{place.name}: ")


def test_strays_and_links_are_faults(report: Path, alice: Path, tmp_path: Path) -> None:
    place = sign(report, alice)
    for stray in ("-f", "notes\x1b[2J.txt", f"{place.name}.part", "SHA256-x.json"):
        (place.parent / stray).touch()
    faults, notes = signatures.check(report)
    assert len(faults) == 4 and len(notes) == 1
    assert all("it is not part of a signature" in fault for fault in faults)
    assert not any("\x1b" in fault for fault in faults)
    shutil.rmtree(place.parent)
    elsewhere = sign(report, alice).rename(tmp_path / "elsewhere")
    place.symlink_to(elsewhere)
    assert signatures.check(report)[0] == [f"signatures/{place.name}: it is not a regular file"]
    place.unlink()
    shutil.move(place.parent, tmp_path / "signatures")
    place.parent.symlink_to(tmp_path / "signatures")
    assert signatures.check(report) == (["signatures: it is not a folder"], [])


def test_half_a_signature_is_a_fault(report: Path, alice: Path) -> None:
    place = sign(report, alice)
    sig = Path(f"{place}.sig")
    text = sig.read_text()
    sig.unlink()
    assert f"its signature {sig.name} does not hold" in signatures.check(report)[0][0]
    sig.write_text(text + "x" * 2**17)
    assert "are the most allowed" in signatures.check(report)[0][0]
    sig.write_text(text)
    place.unlink()
    assert signatures.check(report)[0] == [f"signatures/{sig.name}: it is not part of a signature"]


def test_a_folder_of_too_many_files_is_not_read(report: Path) -> None:
    (report / "signatures").mkdir()
    for number in range(101):
        (report / "signatures" / str(number)).touch()
    assert signatures.check(report) == (["signatures: it holds 101 files, and 100 are allowed"], [])


@pytest.mark.parametrize("spoil", ["runs.jsonl", "manifest.json", "strays", "version"])
def test_a_damaged_report_is_not_signed(report: Path, alice: Path, spoil: str) -> None:
    if spoil == "runs.jsonl":
        (report / spoil).write_text((report / spoil).read_text() + "\n")
    elif spoil == "manifest.json":
        text = (report / spoil).read_text()
        (report / spoil).write_text(text.replace('"failed": ', '"failed": 1'))
    elif spoil == "strays":
        (report / "figures" / "more.svg").symlink_to("/etc/hostname")
    else:
        report = report.rename(report.with_name("2020-01-01-1"))
    with pytest.raises(InputError, match="damaged"):
        sign(report, alice)
    assert not (report / "signatures").exists()


def test_a_key_that_cannot_sign_is_refused(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="There is no key"):
        sign(report, tmp_path / "none")
    (tmp_path / "text").write_text("no key\n")
    with pytest.raises(InputError, match="ssh-keygen does not sign with"):
        sign(report, tmp_path / "text")
    # A passphrase is asked for on the terminal, which a test has none of.
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    locked = made_key(tmp_path, "locked", "long passphrase")
    with pytest.raises(InputError) as caught:
        sign(report, locked)
    assert all(line not in str(caught.value) for line in locked.read_text().splitlines())
    assert not (report / "signatures").exists()


def test_a_key_of_the_agent_signs(
    report: Path, alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE)
    try:
        assert agent.stdout and agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", alice], check=True)
        alice.unlink()
        sign(report, alice.with_suffix(".pub"))
    finally:
        agent.terminate()
        agent.wait()
    assert fingerprint(alice) in signatures.check(report)[1][0]


def test_without_ssh_keygen_nothing_is_signed_and_that_is_said(
    report: Path, alice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = sign(report, alice)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="apt install openssh-client"):
        sign(report, alice)
    faults, [note] = signatures.check(report)
    assert faults == [] and note.startswith(f"signatures/{place.name} was not checked")


def test_where_the_signers_come_from(
    alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = signers(tmp_path, f"{ALICE} {public(alice)}")
    assert signatures.signers_file(None) is None
    (tmp_path / "gitconfig").write_text(f'[gpg "ssh"]\n\tallowedSignersFile = {known}\n')
    assert signatures.signers_file(None) == known
    own = tmp_path / "config" / "innolab" / "allowed_signers"
    own.parent.mkdir(parents=True)
    shutil.copy(known, own)
    assert signatures.signers_file(None) == own
    monkeypatch.setenv("INNOLAB_SIGNERS", os.path.relpath(known))
    assert signatures.signers_file(None).samefile(known)
    assert signatures.signers_file(own) == own
    monkeypatch.setenv("INNOLAB_SIGNERS", str(tmp_path / "none"))
    with pytest.raises(InputError, match="no file of allowed signers"):
        signatures.signers_file(None)


@pytest.mark.parametrize(
    ("signed_at", "says"),
    [
        ("2026-01-31T00:00:00+00:00", "before the report was sealed"),
        ("2099-01-31T00:00:00", "names no time zone"),
    ],
)
def test_nobody_signed_a_report_before_there_was_one(
    report: Path, alice: Path, monkeypatch: pytest.MonkeyPatch, signed_at: str, says: str
) -> None:
    monkeypatch.setattr(signatures, "_now", lambda: signed_at)
    sign(report, alice)
    faults, _ = signatures.check(report)
    assert len(faults) == 1
    assert says in faults[0]


def test_a_report_that_does_not_hold_is_not_signed(report: Path, alice: Path) -> None:
    with pytest.raises(InputError, match=r"runs\.jsonl: trial 3 ends before it begins.*not signed"):
        signatures.sign(report, alice, lambda _: ["runs.jsonl: trial 3 ends before it begins"])
    assert not (report / signatures.FOLDER).exists()
