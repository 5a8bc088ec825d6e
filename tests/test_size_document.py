"""What `innolab size` offers to buy, and what it calls a server: from numbers made by hand."""

import math
from pathlib import Path
from typing import Any

import pytest

from innolab.analysis.stats import Interval
from innolab.base.errors import InnolabError
from innolab.cli import size
from innolab.sizing import size_document, size_page
from innolab.sizing.advice import PoolSizeRow, Sized
from innolab.sizing.pool_sizes import Curve, List, PoolSizePoint
from innolab.sizing.server_status import Facts
from innolab.sizing.size_page import Place
from innolab.sizing.throughput_model import ServerPace
from innolab.storage.profiles import profiles

GB, MIB = 10**9, 2**20
PAGE = 16384
DEVICE = "fusionio-320"


class _Known(Curve):
    """A curve that halves its reads with each pool twice as large."""

    def reads(self, pages: float, level: float = 0.95) -> Interval:
        estimate = 4.0 * self.points[0].pages / pages
        return Interval(estimate, estimate, estimate, 1, level)


def _sized(data_gb: float, comment: str = "", per_s: float = 1000.0) -> Sized:
    now = PoolSizePoint(8 * GB, 8 * GB / PAGE, 60.0, 60 * per_s, 60 * per_s * 50, 60 * per_s * 4)
    curve = _Known([now], List(20 * GB / PAGE), [], by_promotions=True)
    pace = ServerPace(8, per_s, 4.0, 0.9 * 8 / per_s)
    facts = Facts("9.7.0", comment, {}, ())
    row = PoolSizeRow(8 * GB, Interval(4.0, 4.0, 4.0, 1), None, is_measured=True)
    return Sized(facts, round(data_gb * GB), 20 * GB, [now], 0.92, pace, curve, [row])


def _offered(found: Sized) -> dict[str, Any]:
    return {one.option: one for one in size_document.offers(found, 4.0, {DEVICE: 3000.0})}


@pytest.mark.parametrize(("data_gb", "pieces"), [(20, 1), (1000, 4)])
def test_as_many_devices_are_offered_as_hold_the_data(data_gb: float, pieces: int) -> None:
    """All data, also those that nobody asked for; and each has its price and its speed."""
    capacity = profiles()[DEVICE].capacity_bytes
    assert capacity is not None
    assert (pieces - 1) * capacity < data_gb * GB <= pieces * capacity
    found = _offered(_sized(data_gb))[f"another device: {pieces} x {DEVICE}"]
    assert found.price == pieces * 3000


def test_several_devices_read_as_fast_as_all_together() -> None:
    """Of a server that waits for reads alone."""
    one, four = (_offered(_sized(gb, per_s=1e5)) for gb in (20, 1000))
    slower = one[f"another device: 1 x {DEVICE}"].statements_per_s.estimate
    faster = four[f"another device: 4 x {DEVICE}"].statements_per_s.estimate
    assert faster > 2 * slower


def test_a_device_that_is_slower_is_not_called_faster() -> None:
    """The server reads more now than that device can."""
    offers = _offered(_sized(20, per_s=1e5))
    assert offers[f"another device: 1 x {DEVICE}"].gain.estimate < 1
    assert not [option for option in offers if "faster" in option]


def test_a_server_is_called_what_it_is() -> None:
    assert size_document.summary(_sized(20))[0].startswith("MySQL 9.7.0: ")
    assert size_document.summary(_sized(20, "MariaDB Server"))[0].startswith("MariaDB 9.7.0: ")


def test_a_page_that_cannot_be_written_is_said_in_words_of_its_own() -> None:
    """And after all else was printed: it is no report, whose folder could be named."""
    with pytest.raises(InnolabError, match="is printed above") as caught:
        size._write(Path("/proc/none/size.html"), _sized(20), [])
    assert "INNOLAB" not in str(caught.value)
    assert caught.value.exit_status == 1


def test_no_line_is_modelled_through_what_was_measured() -> None:
    places = [
        Place(MIB, 3.0, 2.0, 4.0, is_measured=False),
        Place(2 * MIB, 9.0, math.nan, math.nan, is_measured=True),
        Place(3 * MIB, 1.0, 0.5, 2.0, is_measured=False),
    ]
    [axes] = size_page._drawn(places, []).axes
    drawn = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert drawn == {"modelled": [3.0, 1.0], "measured": [9.0]}
    [axes] = size_page._drawn(places[1:2], []).axes
    assert [line.get_label() for line in axes.lines] == ["measured"]
