"""A report holds what innolab writes, and no more; what would fill the memory is not unpacked."""

import io
import resource
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import ROOT, made_run, planned, reference
from PIL import Image, PngImagePlugin
from pyarrow import parquet

from innolab.base import memory
from innolab.base.errors import InnolabError, InputError
from innolab.record import runlog, series_form, series_store
from innolab.record.run import Run
from innolab.record.runlog import RunLog, SessionStart
from innolab.report import equality, file_contents
from innolab.studies.study import Study
from innolab.verify import git_history
from innolab.verify.verify import verify

_REPORT = reference("multi-buffer-pool")
_PNG = next(_REPORT.glob("figures/*.png"))
_SVG = min(_REPORT.glob("figures/*.svg"))
_CHUNK = Callable[[list[tuple[bytes, bytes]]], list[tuple[bytes, bytes]]]


def _chunks(path: Path) -> list[tuple[bytes, bytes]]:
    return list(file_contents._chunks(path.read_bytes()))


def _png(chunks: list[tuple[bytes, bytes]]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(body).to_bytes(4) + name + body + zlib.crc32(name + body).to_bytes(4)
        for name, body in chunks
    )


def _animated() -> bytes:
    """Return the figure as the first frame of two, of which a browser shows the other."""
    place = io.BytesIO()
    with Image.open(_PNG) as first:
        other = Image.new("RGBA", first.size, "red")
        first.save(
            place, "PNG", save_all=True, append_images=[other], duration=1, dpi=first.info["dpi"]
        )
    return place.getvalue()


def _with_text() -> bytes:
    place = io.BytesIO()
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", "reproduced", zip=True)
    with Image.open(_PNG) as picture:
        picture.save(place, "PNG", pnginfo=about, dpi=picture.info["dpi"])
    return place.getvalue()


def _of_size(width: int, height: int, data: bytes) -> bytes:
    form = struct.pack(">II", width, height) + b"\x08\x06\x00\x00\x00"
    [dense] = [body for name, body in _chunks(_PNG) if name == b"pHYs"]
    parts = [(b"IHDR", form), (b"pHYs", dense), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return _png(parts)


def _hidden_pixels() -> bytes:
    """Return the figure with more data than its pixels have, which no viewer shows."""
    chunks = _chunks(_PNG)
    packed = b"".join(body for name, body in chunks if name == b"IDAT")
    more = zlib.compress(zlib.decompress(packed) + b"more")
    return _png([*chunks[:2], (b"IDAT", more), chunks[-1]])


def _bad_sum() -> bytes:
    data = bytearray(_PNG.read_bytes())
    data[8 + 4 + 4 + 13] ^= 1
    return bytes(data)


_PICTURES: dict[str, tuple[Callable[[], bytes], str]] = {
    "animated": (_animated, "acTL"),
    "with text": (_with_text, "zTXt"),
    "followed by something": (lambda: _PNG.read_bytes() + b"PK", "2 bytes come after the end"),
    "of more data": (_hidden_pixels, "more or fewer than those of its pixels"),
    "of a thousand million pixels": (lambda: _of_size(50_000, 50_000, b""), "are the most"),
    "that unpacks to much": (lambda: _of_size(1, 1, bytes(10**8)), "more or fewer"),
    "with another checksum": (_bad_sum, "another checksum"),
    "cut off": (lambda: _PNG.read_bytes()[:-20], "ends too early"),
    "in another order": (
        lambda: _png([(c := _chunks(_PNG))[1], c[0], *c[2:]]), "in their order"
    ),
    "of no data": (lambda: _png([(b"IHDR", b""), *_chunks(_PNG)[1:]]), "not of the form"),
    "none": (lambda: b"GIF89a", "cannot be read as a picture"),
}  # fmt: skip


@pytest.mark.parametrize("kind", _PICTURES)
def test_a_picture_with_more_than_its_pixels_is_found(tmp_path: Path, kind: str) -> None:
    forged, says = _PICTURES[kind]
    (tmp_path / "figures").mkdir()
    path = tmp_path / "figures" / "a.png"
    path.write_bytes(forged())
    [fault] = file_contents.faults(tmp_path)
    assert fault.startswith("figures/a.png: ")
    assert says in fault
    (tmp_path / "made").mkdir()
    shutil.copy(_PNG, tmp_path / "made" / "a.png")
    assert equality.differences(path.parent, tmp_path / "made", ["a.png"]) == [
        fault[len("figures/") :]
    ]


_HOSTILE_SVG = {
    "a script": ("</svg>", "<script>x()</script></svg>", "an element 'script'"),
    "what a click runs": ("<g id", '<g onclick="x()" id', "a script, 'onclick'"),
    "a page": ("</svg>", "<foreignObject/></svg>", "'foreignObject'"),
    "an animation": ("</svg>", "<animate attributeName='x'/></svg>", "'animate'"),
    "a link": ("</svg>", "<a xlink:href='x'/></svg>", "'a'"),
    "an address": ("</svg>", "<use xlink:href='http://x.invalid/#a'/></svg>", "what is not in it"),
    "an address as data": ("</svg>", "<use href='data:image/svg+xml,x'/></svg>", "not in it"),
    "a style that loads": ('fill="none"', 'style="fill: url(http://x.invalid)"', "'style' loads"),
    "a style that loads in quotes": (
        'fill="none"', 'style="fill: url ( &quot;x&quot;)"', "'style' loads"
    ),
    "a style that hides that": ('fill="none"', r'style="fill: u\72l(x)"', "'style' loads"),
    "a clip elsewhere": ("<g id", "<g clip-path='url(x.svg#a)' id", "'clip-path' loads"),
    "a sheet that imports": ("<defs>", "<defs><style>@import 'x';</style>", "its style loads"),
    "an instruction": ("<!DOCTYPE", "<?xml-stylesheet href='x'?><!DOCTYPE", "instruction"),
    "entities": ('svg11.dtd">', 'svg11.dtd" [<!ENTITY a "b">]>', "declares entities"),
    "an element of another language": (
        "</svg>", "<div xmlns='http://www.w3.org/1999/xhtml'/></svg>", "'div'"
    ),
    "no picture": ("</svg>", "", "cannot be read as a picture"),
}  # fmt: skip


@pytest.mark.parametrize("kind", _HOSTILE_SVG)
def test_a_drawing_that_does_something_is_found(tmp_path: Path, kind: str) -> None:
    old, new, says = _HOSTILE_SVG[kind]
    text = _SVG.read_text()
    assert old in text
    (tmp_path / "a.svg").write_text(text.replace(old, new, 1))
    [fault] = file_contents.faults(tmp_path)
    assert fault.startswith("a.svg: ")
    assert says in fault


def test_entities_of_entities_are_not_expanded(tmp_path: Path) -> None:
    grown = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 9}">' for n in range(1, 12))
    head = f'<!DOCTYPE svg [<!ENTITY a0 "xxxxxxxxx">{grown}]>'
    text = f'{head}<svg xmlns="http://www.w3.org/2000/svg"><style>&a11;</style></svg>'
    (tmp_path / "a.svg").write_text(text)
    assert len(file_contents.faults(tmp_path)) == 1


def test_the_pictures_and_series_of_all_references_are_of_the_form() -> None:
    for kept in sorted(ROOT.glob("reports/*/*/manifest.json")):
        assert file_contents.faults(kept.parent) == []
        assert series_store.SeriesStore(kept.parent).faults() == []


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    for name in ("index.html", "a.svg"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**40)
    faults = file_contents.faults(tmp_path)
    assert [fault.partition(":")[0] for fault in faults] == ["a.svg", "index.html"]
    assert "1,099,511,627,776 bytes" in faults[0]


def test_a_file_of_no_report_ends_verify_before_its_manifest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "2026-01-31-1"
    (report / "figures").mkdir(parents=True)
    (report / "figures" / "a.png").write_bytes(_animated())
    assert verify(report).faults == file_contents.faults(report)


# Series.


def _written(path: Path, frame: Any, **options: Any) -> Path:
    if isinstance(frame, pd.DataFrame):
        frame.to_parquet(path, index=False, **options)
    else:
        parquet.write_table(frame, path, **options)
    return path


def _numbers(rows: int = 100) -> pd.DataFrame:
    return pd.DataFrame({"t_s": np.arange(rows) / 1.0, "rows": np.arange(rows) * 7.0})


def _long_text(path: Path) -> Path:
    """Write 10 KB that hold a thousand times 100 KB: one text, named again and again."""
    return _written(path, pa.table({"t_s": pa.array(["x" * 10**5] * 1000)}))


def _noted(path: Path) -> Path:
    table = pa.table({"t_s": [1.0]}).replace_schema_metadata({"a": "b"})
    return _written(path, table)


def _appended(path: Path) -> Path:
    """Write a series with bytes between its columns and its footer, which readers skip."""
    data = _written(path, _numbers()).read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    path.write_bytes(data[:-footer] + b"more" * 100 + data[-footer:])
    return path


def _followed(path: Path) -> Path:
    path.write_bytes(_written(path, _numbers()).read_bytes() + b"more")
    return path


def _long_footer(path: Path) -> Path:
    path.write_bytes(b"PAR1" + bytes(2**21) + (2**21).to_bytes(4, "little") + b"PAR1")
    return path


_SERIES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "of text": (_long_text, "other things than numbers"),
    "of lists": (
        lambda path: _written(path, pa.table({"t_s": [[1.0] * 9]})), "other things than numbers"
    ),
    "of very many rows": (
        lambda path: _written(path, pd.DataFrame({"t_s": np.zeros(51_000_000)})),
        "values, and 50,000,000 are the most",
    ),
    "of many columns": (
        lambda path: _written(path, pd.DataFrame({f"c{n}": [0.0] for n in range(300)})),
        "300 columns",
    ),
    "of many groups": (
        lambda path: _written(path, _numbers(), row_group_size=1), "100 groups"
    ),
    "packed otherwise": (
        lambda path: _written(path, _numbers(), compression="gzip"), "packed by GZIP"
    ),
    "with a note": (_noted, "a note b'a'"),
    "with more in it": (_appended, "bytes that belong to no column"),
    "with more after it": (_followed, "no footer"),
    "of a long footer": (_long_footer, "no footer"),
    "of nothing": (lambda path: (path.write_bytes(b"") and path) or path, "no footer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", _SERIES)
def test_a_series_of_another_form_is_not_read(tmp_path: Path, kind: str) -> None:
    write, says = _SERIES[kind]
    path = write(tmp_path / "0001.parquet")
    assert says in str(series_form.fault(path))


def test_a_series_as_it_is_written_is_read(tmp_path: Path) -> None:
    assert series_form.fault(_written(tmp_path / "a.parquet", _numbers())) is None


# Memory.


def test_what_takes_too_much_memory_ends_in_a_sentence_and_leaves_no_bound() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with (
        pytest.raises(InputError, match=r"^The report takes more than 0.25 GiB of memory"),
        memory.bounded("The report", 2**28),
    ):
        np.ones(2**27)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with memory.bounded("The report", 2**30):
        assert float(np.ones(2**24).sum()) == 2**24
        inner = resource.getrlimit(resource.RLIMIT_DATA)[0]
        done = subprocess.run(["bash", "-c", "ulimit -d"], capture_output=True, text=True)
        assert int(done.stdout) * 1024 == inner - inner % 1024
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize("verb", ["verify", "judge", "compare"])
def test_verbs_on_foreign_files_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Each verb is stopped where the first thing that it reads would fill the memory."""
    from innolab.compare import compare, members
    from innolab.report import folders, manifest
    from innolab.tables import description, judged

    def fill(*_: object) -> Any:
        return [bytes(2**30) for _ in range(2**10)]

    monkeypatch.setattr(memory, "_used_bytes", lambda: 0)
    monkeypatch.setattr(folders, "foreign", fill)
    monkeypatch.setattr(manifest, "read", fill)
    monkeypatch.setattr(members, "Plan", type("Plan", (), {"read": staticmethod(fill)}))
    monkeypatch.setattr(description, "read", fill)
    (tmp_path / "t.csv").write_text("")
    call: dict[str, Callable[[], object]] = {
        "verify": lambda: verify(tmp_path),
        "judge": lambda: judged.judge(
            tmp_path / "t.csv", about=tmp_path / "t.csv", prove=lambda _: None
        ),
        "compare": lambda: compare.compare([tmp_path, tmp_path]),
    }
    with pytest.raises(InputError, match="more than 4 GiB of memory"):
        call[verb]()


def test_a_line_of_the_log_without_end_is_not_parsed(tmp_path: Path) -> None:
    (tmp_path / runlog.FILE).write_text("[" + "[]," * 2 * 10**6 + "[]]\n")
    with pytest.raises(InnolabError, match=r"Line 1 .* characters, 4,194,304 are the most"):
        RunLog(tmp_path / runlog.FILE).entries()


# What the history says of a session.

_CLAIMS = "data/claims/multi-buffer-pool.yml"


def _git(clone: Path, *words: str) -> str:
    name = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *name, *words], cwd=clone, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with two commits, of which the later has other claims."""
    place = tmp_path / "clone"
    (place / _CLAIMS).parent.mkdir(parents=True)
    _git(tmp_path, "init", "-q", str(place))
    for text in ("- first\n", "- second\n"):
        (place / _CLAIMS).write_text(text)
        _git(place, "add", ".")
        _git(place, "commit", "-q", "-m", "a")
    return place


def _session(folder: Path, run: Run, commit: str, claims: bytes, **innolab: Any) -> RunLog:
    import hashlib

    facts = {"version": "0", "commit": commit, "dirty": False, **innolab}
    log = RunLog(folder / runlog.FILE)
    log.begin(
        SessionStart(
            began_at=datetime(2026, 1, 31, tzinfo=UTC),
            plan_sha256="0" * 64,
            claims_sha256=hashlib.sha256(claims).hexdigest(),
            trials=1,
            blocks=1,
            innolab=facts,
        )
    )
    log.append(run.model_copy(update={"conditions": {**run.conditions, "innolab": facts}}))
    return log


@pytest.fixture
def run(study: Study) -> Run:
    return made_run(study, planned(study, ["x"], replicates=1)[0])


@pytest.mark.parametrize(
    ("revision", "claims", "dirty", "says"),
    [
        ("HEAD~1", b"- first\n", False, None),
        ("HEAD", b"- second\n", False, None),
        ("HEAD", b"- first\n", False, "the session of line 1 says that it began with claims"),
        ("HEAD~1", b"- second\n", False, "the session of line 1 says that it began with claims"),
        ("HEAD", b"- first\n", True, None),
    ],
)
def test_claims_that_were_registered_are_those_of_the_commit(
    tmp_path: Path, clone: Path, run: Run, revision: str, claims: bytes, dirty: bool,
    says: str | None,
) -> None:  # fmt: skip
    commit = _git(clone, "rev-parse", revision)
    entries, _ = _session(tmp_path, run, commit, claims, dirty=dirty).entries()
    faults, notes = git_history.of_sessions(entries, clone / _CLAIMS, clone)
    assert notes == []
    assert [says in fault for fault in faults if says] == ([True] if says else [])
    assert len(faults) == (1 if says else 0)


def test_a_commit_that_nobody_has_is_noted_once(tmp_path: Path, clone: Path, run: Run) -> None:
    entries, _ = _session(tmp_path, run, "ab" * 20, b"").entries()
    faults, [note] = git_history.of_sessions(entries, clone / _CLAIMS, clone)
    assert faults == []
    assert "The commit abababab" in note
    assert "not checked" in note


def test_a_run_of_another_innolab_than_its_session_is_found(
    tmp_path: Path, clone: Path, run: Run
) -> None:
    log = _session(tmp_path, run, _git(clone, "rev-parse", "HEAD"), b"- second\n")
    log.append(run)
    faults, _ = git_history.of_sessions(log.entries()[0], clone / _CLAIMS, clone)
    assert len(faults) == 1
    assert "another innolab than its session" in faults[0]


def test_asking_the_history_runs_nothing_that_a_clone_names(
    tmp_path: Path, clone: Path, run: Run
) -> None:
    ran = tmp_path / "ran"
    for name in (
        "core.fsmonitor",
        "diff.external",
        "core.pager",
        "filter.x.smudge",
        "alias.cat-file",
    ):
        _git(clone, "config", name, f"touch {ran}")
    (clone / ".git" / "info" / "attributes").write_text("*.yml filter=x diff=x\n")
    commit = _git(clone, "rev-parse", "HEAD~1")
    entries, _ = _session(tmp_path, run, commit, b"- first\n").entries()
    assert git_history.of_sessions(entries, clone / _CLAIMS, clone) == ([], [])
    assert not ran.exists()
