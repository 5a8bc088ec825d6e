"""Numbers as people read them. Everything else in innolab stores bytes and seconds."""

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
