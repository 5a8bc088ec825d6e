"""What `innolab size` offers to buy, and what it calls a server: from numbers made by hand."""

from pathlib import Path
from typing import Any

import pytest

from innolab.analysis.stats import Interval
from innolab.base.errors import InnolabError
from innolab.cli import size
from innolab.sizing import advice, size_document, size_page
from innolab.sizing.advice import ServerModel
from innolab.sizing.pool_sizes import Curve, PoolList, PoolSizePoint
from innolab.sizing.size_document import Range, SizeDocument
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


def _offered(data_gb: float, per_s: float = 1000.0) -> dict[str, Any]:
    now = PoolSizePoint(8 * GB, 8 * GB / PAGE, 60.0, 60 * per_s, 60 * per_s * 50, 60 * per_s * 4)
    curve = _Known([now], PoolList(20 * GB / PAGE), [], by_promotions=True)
    model = ServerModel([now], curve, ServerPace(8, per_s, 4.0, 0.9 * 8 / per_s))
    offers = advice.offers(model, round(data_gb * GB), 4.0, {DEVICE: 3000.0})
    return {offer.option: offer for offer in offers}


def _document(maker: str = "MySQL") -> SizeDocument:
    return SizeDocument(
        maker=maker, version="9.7.0", pool_bytes=8 * GB, data_bytes=20 * GB, asked_bytes=20 * GB,
        seconds=60, statements_per_s=1000, requests_per_s=50_000, reads_per_s=4000, hit_share=0.92,
        clients=8, by_promotions=True, resized=False, rows=[], offers=[], not_known=[],
    )  # fmt: skip


@pytest.mark.parametrize(("data_gb", "pieces"), [(20, 1), (1000, 4)])
def test_as_many_devices_are_offered_as_hold_the_data(data_gb: float, pieces: int) -> None:
    """All data, also those that nobody asked for; and each has its price and its speed."""
    capacity = profiles()[DEVICE].capacity_bytes
    assert capacity is not None
    assert (pieces - 1) * capacity < data_gb * GB <= pieces * capacity
    found = _offered(data_gb)[f"another device: {pieces} x {DEVICE}"]
    assert found.price == pieces * 3000


def test_several_devices_read_as_fast_as_all_together() -> None:
    """Of a server that waits for reads alone."""
    one, four = (_offered(gb, per_s=1e5) for gb in (20, 1000))
    slower = one[f"another device: 1 x {DEVICE}"].statements_per_s.estimate
    faster = four[f"another device: 4 x {DEVICE}"].statements_per_s.estimate
    assert faster > 2 * slower


def test_a_device_that_is_slower_is_not_called_faster() -> None:
    """The server reads more now than that device can."""
    offers = _offered(20, per_s=1e5)
    assert offers[f"another device: 1 x {DEVICE}"].gain.estimate < 1
    assert not [option for option in offers if "faster" in option]


def test_a_server_is_called_what_it_is() -> None:
    for maker in ("MySQL", "MariaDB"):
        assert size_document.summary(_document(maker))[0].startswith(f"{maker} 9.7.0: ")


def test_a_page_that_cannot_be_written_is_said_in_words_of_its_own() -> None:
    """And after all else was printed: it is no report, whose folder could be named."""
    with pytest.raises(InnolabError, match="is printed above") as caught:
        size._write(Path("/proc/none/size.html"), _document())
    assert "INNOLAB" not in str(caught.value)
    assert caught.value.exit_status == 1


def test_no_line_is_modelled_through_what_was_measured() -> None:
    places = [
        (MIB, "modelled", Range(estimate=3.0, low=2.0, high=4.0)),
        (2 * MIB, "measured", Range(estimate=9.0, low=None, high=None)),
        (3 * MIB, "modelled", Range(estimate=1.0, low=0.5, high=2.0)),
    ]
    [axes] = size_page.drawn(places, []).axes
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert lines == {"modelled": [3.0, 1.0], "measured": [9.0]}
    [axes] = size_page.drawn(places[1:2], []).axes
    assert [line.get_label() for line in axes.lines] == ["measured"]
