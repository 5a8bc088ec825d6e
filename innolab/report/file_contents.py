"""What the files of a report may hold beside what it shows: nothing.

A picture is compared by its pixels, and pixels are not all that a viewer shows: an animated PNG
begins with the right frame. So a file has the parts that innolab itself writes, and no other. All
is refused by its size before it is unpacked.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from xml.parsers import expat

from innolab.base import parsing
from innolab.record import runlog
from innolab.report import manifest

# The largest report has 700 files, the largest file 6 MB.
_MOST_FILES = 20_000
# The largest figure has 4 million pixels, four bytes each.
_MOST_PIXELS = 25_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNKS = (b"IHDR", b"pHYs", b"IDAT", b"IEND")
# Eight bits of red, green, blue and opacity, not interlaced.
_PNG_FORM = b"\x08\x06\x00\x00\x00"

_SVG = "http://www.w3.org/2000/svg"
# What Matplotlib draws with, its note that this is a still image, and what a point says.
_DRAWN = {f"{_SVG} {name}" for name in
          ("svg", "metadata", "defs", "style", "g", "path", "use", "rect", "clipPath", "pattern",
           "image", "title")}  # fmt: skip
_NOTED = re.compile(
    r"http://(purl\.org/dc/elements/1\.1/|creativecommons\.org/ns#|"
    r"www\.w3\.org/1999/02/22-rdf-syntax-ns#) \w+"
)
# An address inside the picture, or a picture inside it.
_INSIDE = re.compile(r"#[\w.-]+|data:image/png;base64,[A-Za-z0-9+/=\s]+")
# An address that styles may load, or a way to hide one from this search.
_LOADS = re.compile(r"""url\s*\(\s*['"]?(?!\s*#)|@|\\|expression|image-set""", re.IGNORECASE)


def faults(report: Path) -> list[str]:
    """Return the files of a report that are too large, or hold what innolab does not write."""
    members = manifest.members(report)
    if len(members) > _MOST_FILES:
        return [f"it has {len(members):,} files, and {_MOST_FILES:,} are the most"]
    if large := [f"{name}: it has {size:,} bytes, and {runlog.MOST_BYTES:,} are the most allowed"
                 for name, path in members.items()
                 if (size := path.stat().st_size) > runlog.MOST_BYTES]:  # fmt: skip
        return large
    return [
        f"{name}: {why}"
        for name, path in members.items()
        if (check := _CHECKED.get(path.suffix)) and (why := check(path))
    ]


def png_fault(path: Path) -> str | None:
    """Return what a PNG holds beside one picture of the form that innolab writes, or None."""
    if (size := path.stat().st_size) > parsing.MOST_BYTES:
        return f"it has {size:,} bytes, and {parsing.MOST_BYTES:,} are the most allowed"
    try:
        chunks = list(_chunks(path.read_bytes()))
    except ValueError as error:
        return str(error)
    names = tuple(name for name, _ in groupby(name for name, _ in chunks))
    if names != _PNG_CHUNKS:
        strange = next((name for name in names if name not in _PNG_CHUNKS), None)
        return (
            f"it has a part {strange!r}, which is none of its one picture"
            if strange
            else "its parts are not those of one picture, in their order"
        )
    return _picture_fault(chunks)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield name and content of each part of a PNG; ValueError where it is damaged or goes on."""
    if not data.startswith(_PNG):
        raise ValueError("it cannot be read as a picture")
    at, name = len(_PNG), b""
    while name != b"IEND":
        length = int.from_bytes(data[at : at + 4])
        if at + 12 + length > len(data):
            raise ValueError("it cannot be read as a picture: it ends too early")
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if zlib.crc32(name + content) != int.from_bytes(data[at + 8 + length : at + 12 + length]):
            raise ValueError("it cannot be read as a picture: a part of it has another checksum")
        yield name, content
        at += 12 + length
    if at < len(data):
        raise ValueError(f"{len(data) - at:,} bytes come after the end of its picture")


def _picture_fault(chunks: list[tuple[bytes, bytes]]) -> str | None:
    form = chunks[0][1]
    if len(form) != 13 or form[8:] != _PNG_FORM or len(chunks) < 4 or chunks[-1][1]:
        return "it is not of the form in which figures are written"
    width, height = struct.unpack(">II", form[:8])
    if width * height > _MOST_PIXELS:
        return f"it has {width:,} x {height:,} pixels, and {_MOST_PIXELS:,} are the most"
    expected = height * (1 + 4 * width)
    unpacked = zlib.decompressobj()
    try:
        got = len(
            unpacked.decompress(b"".join(c for name, c in chunks if name == b"IDAT"), expected + 1)
        )
    except zlib.error as error:
        return f"it cannot be read as a picture: {error}"
    if got != expected or not unpacked.eof or unpacked.unused_data:
        return "its data are more or fewer than those of its pixels"
    return None


def svg_fault(path: Path) -> str | None:
    """Return what an SVG holds that no figure of innolab does, such as a script, or None."""
    found: list[str] = []
    in_style = False

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal in_style
        in_style = name == f"{_SVG} style"
        if name not in _DRAWN and not _NOTED.fullmatch(name):
            found.append(f"it has an element '{name.rpartition(' ')[2]}', which no figure has")
        found.extend(_attribute_faults(attributes))

    def text(content: str) -> None:
        if in_style and _LOADS.search(content):
            found.append("its style loads something else")

    def end(_name: str) -> None:
        nonlocal in_style
        in_style = False

    def refuse(*_: object) -> None:
        found.append("it declares entities, or an instruction to its reader")

    def doctype(_name: str, _system: str | None, _public: str | None, has_own: bool) -> None:
        if has_own:
            refuse()

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = text
    parser.StartDoctypeDeclHandler, parser.ProcessingInstructionHandler = doctype, refuse
    try:
        parser.Parse(parsing.read_text(path), True)
    except (expat.ExpatError, ValueError) as error:
        return f"it cannot be read as a picture ({str(error)[:100]})"
    return found[0] if found else None


def _attribute_faults(attributes: dict[str, str]) -> Iterator[str]:
    for name, value in attributes.items():
        short = name.rpartition(" ")[2].lower()
        if short.startswith("on"):
            yield f"it has a script, '{short}'"
        elif short == "href" and not _INSIDE.fullmatch(value):
            yield "it refers to what is not in it"
        elif (
            not short.startswith(("href", "data-"))
            and _LOADS.search(value)
            and not name.startswith("http")
        ):
            yield f"its '{short}' loads something else"


_CHECKED: dict[str, Callable[[Path], str | None]] = {".png": png_fault, ".svg": svg_fault}
