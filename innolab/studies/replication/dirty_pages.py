"""Dirty pages: what a server has changed in memory and has still to write to its data files."""

from innolab.base.waiting import await_that
from innolab.mysql.server import Server

_MOST_DIRTY = "innodb_max_dirty_pages_pct"
# A server at rest goes on to note some things of its own.
_FEW_PAGES = 50


def flush(server: Server, within_s: float) -> None:
    """Have a server write its dirty pages, and return when next to none are left.

    Raises
    ------
    InnolabError
        Where it takes longer.
    """
    [(usual,)] = server.query(f"SELECT @@GLOBAL.{_MOST_DIRTY}")
    server.query(f"SET GLOBAL {_MOST_DIRTY} = 0")
    try:
        await_that(
            lambda: dirty_pages(server) <= _FEW_PAGES,
            within_s,
            f"{server.build.id} did not write its dirty pages",
        )
    finally:
        server.query(f"SET GLOBAL {_MOST_DIRTY} = {usual}")


def dirty_pages(server: Server) -> int:
    """Return how many pages of its pool a server has still to write."""
    return int(server.status()["Innodb_buffer_pool_pages_dirty"])
