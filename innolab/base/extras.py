"""What is installed next to innolab only if it is asked for, such as what runs servers."""

from importlib.util import find_spec

from innolab.base.errors import InputError

EXTRAS = {"measure": ("ansible", "distributed", "mysql"), "jupyter": ("ipywidgets", "jupyterlab")}


def missing(extra: str) -> list[str]:
    """Return the modules of an extra that are not installed."""
    return [name for name in EXTRAS[extra] if find_spec(name) is None]


def require(extra: str) -> None:
    """Refuse to go on without what an extra installs.

    Raises
    ------
    InputError
        Says how to install it.
    """
    if lacking := missing(extra):
        raise InputError(
            f"This needs {', '.join(lacking)}, and innolab was installed without. "
            f"Install it: pip install 'innolab[{extra}]'. Nothing was written."
        )
