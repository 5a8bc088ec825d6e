"""Which pages sysbench asks for, and what share of the requests a pool of some size misses."""

import math
from collections.abc import Callable

import numpy as np

# sysbench's defaults, src/sb_rand.c: --rand-spec-iter, -spec-pct, -spec-res, --rand-pareto-h and,
# after 1.0.20 only, --rand-zipfian-exp.
_SPECIAL_ITER = 12
_SPECIAL_PCT = 1
_SPECIAL_RES = 75
_PARETO_H = 0.2
_ZIPF_EXPONENT = 0.8

# Beyond it exp(T) would overflow. Che's equation has no root below it where the pool is larger
# than the set of pages that are ever asked for.
_LOG_T_MAX = 700.0


def popularity(distribution: str, pages: int, rows: int) -> np.ndarray:
    """Return the probability that one access falls on each page of a table.

    Rows are in the order of their ids, evenly over the pages: the numbers of rows of two pages
    differ by one at most.

    Parameters
    ----------
    distribution : {"uniform", "special", "pareto", "zipf"}
        sysbench's --rand-type, with its default parameters. `zipf` is its `zipfian`.
    pages, rows : int
        Size of the table; `rows` is sysbench's --table-size.

    Returns
    -------
    numpy.ndarray, shape (pages,)
        Probabilities in the order of ids; they sum to 1.

    Raises
    ------
    ValueError
        Where the distribution is unknown, or there is not at least one row for every page.

    References
    ----------
    sysbench 1.0.20, src/sb_rand.c: sb_rand_uniform, sb_rand_special, sb_rand_pareto. No release
    has `zipfian`; it is sb_rand_zipfian of the development branch (commit 3ceba0b).

    >>> popularity("uniform", 4, 100).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if distribution not in _SHARES:
        raise ValueError(f"unknown distribution '{distribution}'; there are {', '.join(_SHARES)}")
    if not 1 <= pages <= rows:
        raise ValueError(f"{rows} rows cannot fill {pages} pages")
    first_rows = np.arange(pages + 1) * rows // pages
    return _SHARES[distribution](first_rows, rows)


def _uniform(edges: np.ndarray, rows: int) -> np.ndarray:
    return np.diff(edges) / rows


def _special(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return the shares of sb_rand_special between row numbers `edges`, counted from 0.

    One draw u decides the branch and, above 1 - res, is used again as the place in the central
    part. It is then never small, so that only the upper `res` of the central `pct` is drawn: with
    the defaults ids from 49.75 % to 50.5 % of the range, 0.75 % of it and not 1 %.
    """
    span = rows - 1
    spread = 1 - _SPECIAL_RES / 100
    width = span * _SPECIAL_PCT / 100
    centre = (span - width) / 2
    low, high = centre + spread * (width + 1), centre + width + 1
    central = np.diff(np.clip((edges - low) / (high - low), 0, 1))
    places = np.minimum(edges / max(span, 1), 1) * _SPECIAL_ITER
    return spread * _irwin_hall(places) + (1 - spread) * central


def _irwin_hall(places: np.ndarray) -> np.ndarray:
    """Return the probabilities that a sum of uniform draws falls between neighbouring places.

    The closed form of Irwin (1927) and Hall (1927), Biometrika 19: the sum of n draws is below x
    with probability sum_k (-1)^k C(n, k) (x - k)^n / n! over k <= x. It is used below the middle
    and mirrored above, because near n its terms cancel and the outer pages, asked for once in
    1e40 accesses, would be lost. SciPy's `irwinhall` is as exact and takes half a minute for a
    million pages.
    """
    n = _SPECIAL_ITER
    upper = places > n / 2
    x = np.where(upper, n - places, places)
    below = sum(
        (-1) ** k * math.comb(n, k) * np.maximum(x - k, 0) ** n / math.factorial(n)
        for k in range(n // 2 + 1)
    )
    # Above the middle this is the probability less one, so only the step across it is off by one.
    return np.diff(np.where(upper, -below, below)) + np.diff(upper)


def _pareto(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return the shares of sb_rand_pareto, which draws rows * u**p with p = ln h / ln(1 - h)."""
    power = math.log(_PARETO_H) / math.log(1 - _PARETO_H)
    return np.diff((edges / rows) ** (1 / power))


def _zipf(edges: np.ndarray, rows: int) -> np.ndarray:
    """Return the shares of sb_rand_zipfian, which draws the k-th row in proportion to k**-s."""
    sums = _power_sums(edges)
    return np.diff(sums) / sums[-1]


def _power_sums(counts: np.ndarray) -> np.ndarray:
    """Return sum_{k=1..n} k**-s for every n of `counts`, with an error below 1e-12.

    The first terms one by one, the others by the Euler-Maclaurin formula (DLMF 2.10.1).
    """
    s, direct = _ZIPF_EXPONENT, 100

    def smooth(n: np.ndarray) -> np.ndarray:
        return n ** (1 - s) / (1 - s) + n**-s / 2 - s * n ** (-s - 1) / 12

    first = np.concatenate([[0.0], np.cumsum(np.arange(1, direct + 1) ** -s)])
    beyond = np.maximum(counts, direct).astype(float)
    rest = smooth(beyond) - smooth(np.array(float(direct)))
    return first[np.minimum(counts, direct)] + rest


_SHARES: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "uniform": _uniform,
    "special": _special,
    "pareto": _pareto,
    "zipf": _zipf,
}


def miss_ratio(distribution: str, x_ratio: float, pages: int, rows: int) -> float:
    """Return the share of page accesses that a least-recently-used cache misses.

    For `uniform` it is 1 - x. For the others it is Che's approximation: a page stays for the same
    time T, counted in accesses, after each access to it; T is where the expected number of pages
    inside, sum_i (1 - exp(-p_i T)), equals the size of the cache, and page i is then missed with
    probability exp(-p_i T).

    Parameters
    ----------
    distribution : {"uniform", "special", "pareto", "zipf"}
    x_ratio : float
        Size of the cache over size of the data, 0 or more.
    pages, rows : int
        As for `popularity`. The result hardly depends on `pages`, so a large table may be given
        with fewer; `zipf` does depend on `rows`, by 4 % between 4e5 and 4e7.

    Returns
    -------
    float
        Between 0 and 1; 0 where the cache holds every page that is ever asked for.

    Raises
    ------
    ValueError
        As `popularity`, or where x_ratio is negative or not a number.

    References
    ----------
    Che, Tung, Wang (2002), "Hierarchical Web caching systems: modeling, design and experimental
    results", IEEE JSAC 20(7). Fricker, Robert, Roberts (2012), "A versatile and accurate
    approximation for LRU cache performance", arXiv:1202.3974, say why it is so close.

    Notes
    -----
    Accesses are taken as independent. InnoDB's list is not plain LRU: new pages enter it at 5/8;
    tests/test_models.py says by how much it differs, and `buffer_pool` models the list itself.

    >>> miss_ratio("uniform", 0.25, 100, 1000)
    0.75
    """
    if not x_ratio >= 0:
        raise ValueError(f"a cache cannot be {x_ratio} of the data")
    chances = popularity(distribution, pages, rows)
    if x_ratio == 0 or x_ratio >= 1 or distribution == "uniform":
        return max(0.0, 1.0 - x_ratio)
    time = stay(chances, np.ones(pages), x_ratio * pages)
    if math.isinf(time):
        return 0.0
    return float((chances * np.exp(-chances * time)).sum())


def stay(rates: np.ndarray, pages: np.ndarray, size: float) -> float:
    """Return how long a least-recently-used cache keeps a page that nobody asks for: Che's T.

    Parameters
    ----------
    rates : array of float, shape (n,), accesses of one page of each class in a unit of time
    pages : array of float, shape (n,), how many pages each class has
    size : pages that the cache holds, more than 0

    Returns
    -------
    float
        In the unit of time of `rates`; infinity where the cache holds all that is ever asked for.

    References
    ----------
    As `miss_ratio`.
    """
    # Imported here: every command of the study would wait a second for it.
    from scipy.optimize import brentq

    def excess(log_t: float) -> float:
        return float(-(pages * np.expm1(-rates * math.exp(log_t))).sum()) - size

    # 1 - exp(-r T) <= r T, so the pages inside are at most T times all rates.
    low = high = math.log(size / float((pages * rates).sum()))
    while excess(high) < 0:
        if high >= _LOG_T_MAX:
            return math.inf
        low, high = high, min(high + 5, _LOG_T_MAX)
    return math.exp(brentq(excess, low, high) if high > low else high)
