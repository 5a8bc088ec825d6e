"""Render the shipped reports by today's code in the place of older renderings: `make references`.

A page can be checked by the code that made it alone, so the repository ships the newest rendering
of each report's runs. Every rendering is made before the first older one goes: removing files that
git tracks would mark the rest as rendered by changed files.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from innolab import studies
from innolab.report import folders, manifest, rendering_code

_INNOLAB = Path(sys.executable).with_name("innolab")


def stale() -> list[Path]:
    """Return the reports whose page other code than today's made."""
    return [
        report
        for name in studies.names()
        for report in folders.finished(name)
        if rendering_code.difference(manifest.read(report), studies.find(name))
    ]


def _innolab(*words: str) -> str:
    done = subprocess.run([_INNOLAB, *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def _by_study(reports: list[Path]) -> list[tuple[str, list[Path]]]:
    names = dict.fromkeys(report.parent.name for report in reports)
    return [(name, [r for r in reports if r.parent.name == name]) for name in names]


def _rendered(name: str, reports: list[Path]) -> tuple[str, dict[str, str]]:
    """Render reports of a study in their order, and return their new versions by the old ones."""
    versions = {}
    for report in reports:
        versions[report.name] = Path(_innolab("render", str(report))).parent.name
        print(f"{name}: {report.name} is {versions[report.name]} now", flush=True)
    return name, versions


def _again(name: str, renamed: dict[str, str]) -> None:
    """Compare reports of a study again, two by two as before."""
    for page in folders.comparisons(name):
        versions = page.parent.name.split("_")
        shutil.rmtree(page.parent)
        if renamed.keys() >= set(versions):
            _innolab("compare", *(f"{name}/{renamed[one]}" for one in versions), "--html")


def main() -> None:
    """Render what is stale, remove the older renderings, and write what leads to them again."""
    renamed: dict[str, dict[str, str]] = {}
    old = stale()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, versions in pool.map(_rendered, *zip(*_by_study(old), strict=True)):
            renamed[name] = versions
    for report in old:
        shutil.rmtree(report)
    for name, versions in renamed.items():
        _again(name, versions)
    print(_innolab("index"))


if __name__ == "__main__":
    main()
