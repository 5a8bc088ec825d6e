"""What MkDocs asks of us while it builds: pages and tables that are written from the code.

A line `{{ NAME ARGUMENT }}` of a page stands for what the function NAME of `tables` returns. The
pages of single studies and the list of decisions have no file at all. So nothing generated is kept,
and nothing generated can be out of date.
"""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import tables

_MARK = re.compile(r"^\{\{ (\w+)(?: ([\w.]+))? \}\}$", re.MULTILINE)


def on_config(config: Any) -> None:
    """Add the pages of studies and decisions to the navigation."""
    studies = _section(_section(config.nav, "Reference"), "Studies and parameters")
    studies += [f"reference/studies/{name}.md" for name in tables.names()]
    decisions = _section(_section(config.nav, "Explanation"), "Decisions")
    decisions += [f"decisions/{path.name}" for path in tables.decision_files()]


def _section(nav: list[Any], title: str) -> list[Any]:
    return next(entry[title] for entry in nav if isinstance(entry, dict) and title in entry)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that have no file."""
    pages = {f"reference/studies/{name}.md": tables.study_page(name) for name in tables.names()}
    pages["decisions/index.md"] = tables.decisions()
    for place, text in pages.items():
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace each mark by what the code says; search finds decisions after all else.

    Raises
    ------
    PluginError
        Where a mark names what there is not, which ends the build.
    """
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.3}
    return _MARK.sub(_replaced, markdown)


def _replaced(mark: re.Match[str]) -> str:
    name, argument = mark.groups()
    write = getattr(tables, name, None)
    if write is None:
        raise PluginError(f"{mark[0]} stands for nothing: docs/tables.py has no {name}.")
    return str(write(argument) if argument else write())
