"""The verb that sizes the buffer pool of a server that runs."""

import math
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from innolab.base import extras
from innolab.base.errors import InnolabError, InputError
from innolab.cli.options import AsJson

if TYPE_CHECKING:
    from innolab.sizing.size_document import SizeDocument

_SIZE = re.compile(r"(?P<number>\d+(?:[.]\d+)?)(?P<unit>[KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SECONDS = (5.0, 3600.0)


def size(
    socket: Annotated[str | None, typer.Option(metavar="PATH", help="Its unix socket.")] = None,
    defaults_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="An option file with socket or host, user, password."),
    ] = None,
    login_path: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cannot be read; says what to do instead.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Who asks; else as the file or you.")] = None,
    seconds: Annotated[float, typer.Option(help="How long to watch, at each size.")] = 60.0,
    at: Annotated[
        list[str] | None, typer.Option(metavar="SIZE", help="A size to predict too, as 24G.")
    ] = None,
    resize: Annotated[
        list[str] | None,
        typer.Option(metavar="SIZE", help="A size to try for a while; changes the server."),
    ] = None,
    price_memory_gb: Annotated[
        float | None, typer.Option(help="What a gigabyte of memory costs.")
    ] = None,
    price_device: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PRICE", help="What a device of data/devices.csv costs."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write a page there too.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what another buffer pool would give a server that runs, without a restart.

    Asks by SELECT and SHOW alone. Only --resize changes anything, the size of the pool, for a while
    and always back; MySQL 5.7 and later can.
    """
    extras.require("measure")
    if login_path is not None:
        raise InputError(
            "A login path is in .mylogin.cnf, which MySQL's Python connector cannot read. Put "
            "socket or host, user and password below [client] in a file that only you can read, "
            "and give it with --defaults-file. Nothing was asked of any server."
        )
    if not _SECONDS[0] <= seconds <= _SECONDS[1]:
        raise InputError(f"--seconds is {seconds:g}; it is {_SECONDS[0]:g} to {_SECONDS[1]:g}.")
    sizes, rungs = ([_bytes(text) for text in texts or []] for texts in (at, resize))
    prices = _prices(price_memory_gb, price_device or [])
    _require_place(html)

    from innolab.measure.progress import Shown
    from innolab.sizing import advice, size_document
    from innolab.sizing.advice import SizingRequest
    from innolab.sizing.target import Target

    request = SizingRequest(seconds, sizes, rungs, price_memory_gb, prices)
    with _endable(is_changing=bool(rungs)):
        with Shown() as progress:
            document = advice.size(Target(socket, defaults_file, user), request, progress.mark)
        text = document.model_dump_json(indent=1) if as_json else "\n".join(
            size_document.lines(document)
        )  # fmt: skip
        print(text, flush=True)
        if html is not None:
            _write(html.absolute(), document)


class _EndedError(BaseException):
    """Asked to end. No Exception: nobody who is patient with a server may be so with this."""


def _end(_number: int, _frame: object) -> None:
    raise _EndedError


@contextmanager
def _endable(*, is_changing: bool) -> Iterator[None]:
    """Run the block, which signals end once the pool is back."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        yield
    except _EndedError:
        # A pool that could not be set back is another error, which says so.
        back = " The pool has the size that it had." if is_changing else ""
        raise InnolabError(f"Interrupted.{back}") from None


def _write(html: Path, document: "SizeDocument") -> None:
    """Write the page; what it shows has been printed, so that a full disk loses nothing."""
    from innolab.sizing import size_page

    try:
        size_page.write(html, document)
    except InputError:
        raise InnolabError(
            f"{html} could not be written; what it would show is printed above. Give --html a path "
            "on a disk with room, in a folder that you may write in."
        ) from None


def _require_place(html: Path | None) -> None:
    """Raise InputError if a page cannot be written, before a server is watched for it."""
    if html is None:
        return
    folder = html.absolute().parent
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder} to write {html.name} in.")
    if html.is_dir():
        raise InputError(f"{html} is a folder. Give --html the path of a page, as size.html.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"You may not write in {folder}. Give --html a path where you may.")


def _bytes(text: str) -> int:
    """Return a size in bytes.

    >>> _bytes("1.5G"), _bytes("384MiB")
    (1610612736, 402653184)
    """
    match = _SIZE.fullmatch(text.strip())
    value = float(match["number"]) * _UNITS[match["unit"].upper()] if match else 0.0
    if not 2**20 <= value <= 2**50:
        raise InputError(f"'{text[:40]}' is no size of a pool; write it as 384M or 24G.")
    return round(value)


def _prices(memory_gb: float | None, devices: list[str]) -> dict[str, float]:
    from innolab.storage.profiles import profiles

    if memory_gb is not None and not (memory_gb >= 0 and math.isfinite(memory_gb)):
        raise InputError("--price-memory-gb is no amount of money.")
    prices = {}
    known = [name for name, one in profiles().items() if one.times is None and one.capacity_bytes]
    for text in devices:
        name, _, price = text.partition("=")
        try:
            prices[name] = float(price)
        except ValueError:
            prices[name] = math.nan
        if name not in known or not (prices[name] >= 0 and math.isfinite(prices[name])):
            raise InputError(
                f"'{text[:60]}' is no device with its price. Write NAME=PRICE; there are: "
                f"{', '.join(known)}."
            )
    return prices
