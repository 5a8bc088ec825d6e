"""Where the project's own files and its reports are: in a clone, or where a wheel was installed.

In a clone they are next to the package. A wheel has them inside it, where its build hook
(`setup.py`) copies them, and has neither reports nor the project's history.
"""

import os
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# The folder inside the package where a wheel has the project's own files.
PACKED = "_files"
_IN_WHEEL = PACKAGE / PACKED
# What a build hook knows of the revision that it packs: commit, dirty and the digest of the lock.
REVISION_FILE = "revision.json"


def is_installed() -> bool:
    """Return whether this innolab came as a wheel, so that there is no clone around it."""
    return _IN_WHEEL.is_dir()


def own(*parts: str) -> Path:
    """Return where one of the project's own files is: data, notebooks, playbooks.

    >>> own("data", "devices.csv").is_file()
    True
    """
    return (_IN_WHEEL if is_installed() else PACKAGE.parent).joinpath(*parts)


def reports() -> Path:
    """Return the folder of all reports: that of the clone, or ./reports if there is none.

    `INNOLAB_REPORTS` moves it.
    """
    if named := os.environ.get("INNOLAB_REPORTS"):
        return Path(named).absolute()
    return (Path.cwd() if is_installed() else PACKAGE.parent) / "reports"


def set_up(also: str = "") -> str:
    """Return the command that installs servers and tools, as messages name it.

    Parameters
    ----------
    also : a build that is only installed if asked for
    """
    if is_installed():
        return f"innolab setup {also}".strip()
    return f"make setup ALSO={also}" if also else "make setup"
