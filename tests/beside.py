"""Which tests run side by side, and what keeps the others from it: the hooks of conftest.

`make test` runs the tests that are not marked `alone` side by side, file by file, and then those
that are, one by one.
"""

import contextlib
from collections.abc import Callable, Generator

import pytest

from innolab.base.errors import InputError
from innolab.hosts import machine, network
from innolab.storage import emulated

# The files that take longest: they begin first, so that no worker ends with one of them alone.
_LONGEST = (
    "test_report.py", "test_verify.py", "test_pages.py", "test_wheel.py", "test_docs.py",
    "test_bad_input.py", "test_binder.py", "test_jupyterlab.py",
    "test_languages.py", "test_emulated_disk.py", "test_figure_kit.py", "test_standards.py",
    "test_workstation.py", "test_insert.py", "test_storage.py", "test_lab.py", "test_server.py",
)  # fmt: skip
# What needs the machine alone: the right to measure, and what has rates that are judged.
DOORS = ((machine, "measuring_alone"), (network.Network, "__enter__"), (emulated, "raise_disk"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first; the order within a file stays."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Hold the right to measure while tests run side by side.

    So neither a test nor a program that it starts can measure beside others: it is told that this
    process measures already.
    """
    right = contextlib.ExitStack()
    if session.config.getoption("numprocesses", None):
        try:
            right.enter_context(machine.measuring_alone())
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
    with right:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Close the doors to a test that is not marked `alone`, and to its fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("alone") is None:
            for place, name in DOORS:
                patch.setattr(place, name, _closed(name))
        return (yield)


def _closed(name: str) -> Callable[..., None]:
    def closed(*_: object, **__: object) -> None:
        pytest.fail(f"{name}: this needs the machine alone. Mark the test with pytest.mark.alone")

    return closed
