"""innolab: published studies of MySQL/InnoDB storage and memory, run again and judged.

What a notebook uses: `open_study`, and for its tables and figures `geometric_mean`, `interval`,
`estimate`, `ratios`, `forest`, `table`, `stacked`, `prose`, `lines`, `text`,
`listed`; to look at single runs, `explore`.
"""

import importlib
from typing import Any

__version__ = "0.2.0"
# Where each name that a notebook uses is defined, and the name that it has there.
_OFFERED = {
    "arithmetic_interval": "report.summaries:arithmetic_interval",
    "as_text": "report.summaries:as_text",
    "described": "report.summaries:described",
    "estimate": "report.summaries:estimate",
    "explore": "report.explorer:explore",
    "forest": "report.figures:forest",
    "geometric_mean": "report.summaries:geometric_mean",
    "interval": "report.summaries:interval",
    "lines": "report.prose:lines",
    "listed": "report.prose:listed",
    "open_study": "notebook:open_study",
    "plotted": "report.summaries:plotted",
    "prose": "report.prose:prose",
    "ratios": "report.summaries:ratios",
    "table": "report.display:Table",
    "stacked": "report.display:Tables",
    "text": "base.language:text",
}


def __getattr__(name: str) -> Any:
    """Import what a notebook uses when it asks, so that `innolab --help` answers at once."""
    if name not in _OFFERED:
        raise AttributeError(f"innolab has no '{name}'")
    module, _, there = _OFFERED[name].partition(":")
    return getattr(importlib.import_module(f"innolab.{module}"), there)


def __dir__() -> list[str]:
    """Return the names that a notebook uses, for completion."""
    return sorted([*globals(), *_OFFERED])
