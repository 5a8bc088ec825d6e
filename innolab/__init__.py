"""innolab: published studies of MySQL/InnoDB storage and memory, run again and judged.

What a notebook uses: `open_study`, and for its tables and figures `geometric_mean`, `interval`,
`estimate`, `ratios`, `forest`, `table`, `prose`, `lines`, `text`, `listed`; to look at single runs,
`explore`.
"""

from typing import Any

__version__ = "0.2.0"
__all__ = [
    "arithmetic_interval", "described", "estimate", "explore", "forest", "geometric_mean",
    "interval", "interval_text", "lines", "listed", "open_study", "plotted", "prose", "ratios",
    "table", "text",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what a notebook uses when it asks, so that `innolab --help` answers at once."""
    if name not in __all__:
        raise AttributeError(f"innolab has no '{name}'")
    if name == "explore":
        from innolab.report.explorer import explore

        return explore
    from innolab import notebook

    return getattr(notebook, name)
