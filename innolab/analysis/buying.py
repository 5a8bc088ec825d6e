"""What can be bought for data that do not fit memory: options, and what each adds to the price."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Offer(NamedTuple):
    """One way to spend money.

    Attributes
    ----------
    option : as text
    memory_gb : the pool that there is then, in 1e9 bytes
    device : the name of the device that holds the data then
    pieces : how many of it are bought, 0 where it is the one that there is
    price : of what is added, NaN where it is not known
    """

    option: str
    memory_gb: float
    device: str
    pieces: int
    price: float


def pieces(capacity_bytes: int | None, data_gb: float) -> int:
    """Return how many of a device hold the data; one of a device whose size is not its own.

    >>> pieces(160 * 10**9, 500.0), pieces(None, 500.0)
    (4, 1)
    """
    return 1 if capacity_bytes is None else max(1, math.ceil(data_gb * 1e9 / capacity_bytes))


def offers(
    have_gb: float,
    data_gb: float,
    device: str,
    faster: Sequence[tuple[int, str]],
    price_memory_gb: float | None,
    price_devices: Mapping[str, float],
    named: str = "a faster device",
) -> list[Offer]:
    """Return what there is, more memory, faster devices, and both.

    Parameters
    ----------
    have_gb, data_gb : the pool and the data, in 1e9 bytes
    faster : devices that are faster, with how many of each hold the data
    price_memory_gb : of 1e9 bytes; None where it is not known
    price_devices : by name, of one each
    named : what a device of `faster` is called, where it may be slower

    >>> [offer.price for offer in offers(32.0, 100.0, "disk", [], 5.0, {})]
    [0.0, 160.0, 340.0]
    """
    twice, whole = 2 * have_gb, max(have_gb, data_gb)

    def cost(price: float | None, amount: float) -> float:
        return amount and (math.nan if price is None else price * amount)

    ways = [
        (f"what there is: {have_gb:g} GB of memory, {device}", have_gb, 0, device),
        (f"twice the memory: {twice:g} GB", twice, 0, device),
        (f"memory for all data: {whole:g} GB", whole, 0, device),
        *((f"{named}: {n} x {name}", have_gb, n, name) for n, name in faster),
        *((f"both: {twice:g} GB and {n} x {name}", twice, n, name) for n, name in faster),
    ]
    return [
        Offer(option, gb, name, n,
              cost(price_memory_gb, gb - have_gb) + cost(price_devices.get(name), n))
        for option, gb, n, name in ways
    ]  # fmt: skip
