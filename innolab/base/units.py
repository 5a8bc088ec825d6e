"""Numbers as people read them. Everything else in innolab stores bytes and seconds."""

import math

from innolab.base.language import text

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def bytes_text(size_bytes: float) -> str:
    """Return a size with a binary unit and three significant digits.

    >>> bytes_text(1_378_877_440)
    '1.28 GiB'
    >>> bytes_text(134_217_728)
    '128 MiB'
    """
    size = float(size_bytes)
    for unit in _BINARY:
        if abs(size) < 1024 or unit == _BINARY[-1]:
            return f"{size:.4g} {unit}" if size >= 1000 else f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def seconds_text(duration_s: float) -> str:
    """Return a duration as a person would say it.

    >>> seconds_text(2.3456)
    '2.35 s'
    >>> seconds_text(754)
    '12 min 34 s'
    """
    if duration_s < 60:
        return f"{duration_s:.3g} s"
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def number(value: float) -> str:
    """Return a number with as many digits as a reader can use.

    >>> number(12345.6), number(1.2345), number(10.0)
    ('12,346', '1.23', '10')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def chance_text(probability: float | None) -> str:
    """Return a probability as people say it; empty if it is not known.

    >>> chance_text(0.973), chance_text(0.9992), chance_text(0.001), chance_text(None)
    ('97 %', '> 99 %', '< 1 %', '')
    """
    if probability is None:
        return ""
    percent = round(100 * probability)
    return "> 99 %" if percent > 99 else "< 1 %" if percent < 1 else f"{percent} %"


def interval_text(estimate: float | None, low: float | None, high: float | None) -> str:
    """Return an estimate with its interval in the language chosen, as far as they are known.

    An end that is None, NaN or infinite is not known.

    >>> interval_text(1.2345, 1.1, 1.38), interval_text(5.0, None, None)
    ('1.23 (1.1 to 1.38)', '5')
    >>> interval_text(None, 70.0, None), interval_text(73.0, 70.0, math.inf)
    ('at least 70', '73 (at least 70)')
    """
    ends = {"estimate": estimate, "low": low, "high": high}
    known = {k: number(v) for k, v in ends.items() if v is not None and math.isfinite(v)}
    if "estimate" not in known:
        return text("at least {low}", low=known["low"]) if "low" in known else ""
    if "low" not in known or low == high:
        return known["estimate"]
    if "high" not in known:
        return text("{estimate} (at least {low})", **known)
    return text("{estimate} ({low} to {high})", **known)


# A ratio whose interval holds 1 and is within a tenth of it is no difference that anybody measures,
# and an interval that spans more than a factor of ten says nothing of the value.
_NO_DIFFERENCE, _UNKNOWN_SPAN = 1.1, 10.0


def ratio_text(estimate: float, low: float | None, high: float | None) -> str:
    """Return a ratio with its interval as what it says in the language chosen.

    An end that is None or NaN is not known.

    >>> print(ratio_text(2.5, 2.13, 2.9), "|", ratio_text(1.004, 0.99, 1.01))
    2.50x (2.13 to 2.90) | 1.00x (0.990 to 1.01), no measurable difference
    >>> print(ratio_text(1.97, 0.398, 9.75), "|", ratio_text(236.4, None, None))
    1.97x (0.398 to 9.75), so not known | 236x
    """
    if low is None or high is None or not low < high:
        return f"{_ratio(estimate)}x"
    ends = {"estimate": _ratio(estimate), "low": _ratio(low), "high": _ratio(high)}
    shown = text("{estimate}x ({low} to {high})", **ends)
    if 1 / _NO_DIFFERENCE <= low <= 1 <= high <= _NO_DIFFERENCE:
        return text("{shown}, no measurable difference", shown=shown)
    if low <= 0 or high / low > _UNKNOWN_SPAN:
        return text("{shown}, so not known", shown=shown)
    return shown


def _ratio(value: float) -> str:
    """Return a ratio with three digits, as 1.00 says more than 1."""
    return f"{value:#.3g}".rstrip(".") if 1e-3 <= value < 1000 else number(value)
