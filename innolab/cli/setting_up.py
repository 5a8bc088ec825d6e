"""The verb that prepares this host."""

from typing import Annotated

import typer

from innolab.base.errors import InputError


def setup(
    builds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BUILD]...",
            help="Builds that are only installed if asked for, as mariadb-10.11.",
        ),
    ] = None,
) -> None:
    """Install MySQL builds, their base my.cnf and tools into the cache folder; nothing twice.

    In a clone `make setup` does the same, and makes the Python environment first.
    """
    from innolab.base import extras
    from innolab.hosts import playbooks
    from innolab.mysql.builds import recipes

    also = builds or []
    if unknown := [build for build in also if build not in recipes()]:
        raise InputError(
            f"There is no recipe for '{unknown[0]}'. There is one for: {', '.join(recipes())}."
        )
    extras.require("measure")
    playbooks.show("workstation.yml", {"mysql_also": also})
