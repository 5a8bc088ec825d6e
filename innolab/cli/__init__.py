"""The verbs. Each imports what it needs when it runs, so that `--help` answers at once."""

import signal
import sys
from collections.abc import Callable
from typing import Annotated

import typer

import innolab
from innolab.base.errors import InnolabError
from innolab.base.quoting import printable
from innolab.cli import (
    figure,
    judge,
    measuring,
    reports,
    reproduce,
    setting_up,
    size,
    studies,
)

# By name, in the order of the help: what a verb does, and an example of it.
VERBS: dict[str, tuple[Callable[..., None], str]] = {
    "list": (studies.list_, "list --names"),
    "doctor": (studies.doctor, "doctor"),
    "setup": (setting_up.setup, "setup"),
    "plan": (studies.plan, "plan multi-buffer-pool --scale smoke -p replicates=3"),
    "run": (measuring.run, "run multi-buffer-pool -p builds=/usr/sbin/mysqld"),
    "reproduce": (reproduce.reproduce, "reproduce F1-warm-8v1 --plan"),
    "render": (reports.render_, "render more-memory/2026-01-31-1 -p buy_data_gb=500"),
    "verify": (reports.verify, "verify multi-buffer-pool/2026-01-31-1"),
    "sign": (reports.sign, "sign multi-buffer-pool/2026-01-31-1 --key ~/.ssh/id_ed25519"),
    "compare": (reports.compare, "compare STUDY/2026-01-31-1 STUDY/2026-02-14-1 --html"),
    "judge": (judge.judge, "judge TABLE.csv --about ABOUT.yml --claims CLAIMS.yml"),
    "figure": (figure.figure, "figure multi-buffer-pool/2026-01-31-1 passes --width single"),
    "deposit": (reports.deposit, "deposit multi-buffer-pool/2026-01-31-1 --to my/deposit"),
    "open": (reports.open_, "open multi-buffer-pool"),
    "index": (reports.index, "index"),
    "size": (size.size, "size --socket /run/mysqld/mysqld.sock --seconds 60"),
}
app = typer.Typer(
    help="Re-run published studies of MySQL/InnoDB storage and memory, and judge their claims.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, (_verb, _example) in VERBS.items():
    app.command(_name, epilog=f"Example: innolab {_example}")(_verb)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"innolab {innolab.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print innolab's version."
        ),
    ] = False,
) -> None:
    pass


class _EndedError(BaseException):
    """Asked to end. No Exception: the trial it falls into has not failed and is not recorded."""


def _end(_number: int, _frame: object) -> None:
    raise _EndedError


def main() -> None:
    """Run the command line; faults become one paragraph on standard error and an exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        app()
    except InnolabError as error:
        # A message may quote what somebody else wrote.
        print(*map(printable, str(error).split("\n")), sep="\n", file=sys.stderr)
        sys.exit(error.exit_status)
    except OSError as error:
        print(
            f"A file could not be read or written: {printable(str(error))}. What was recorded is "
            "kept; fix this and run the same command again.",
            file=sys.stderr,
        )
        sys.exit(1)
    except RecursionError:
        print(
            "A file that was given is nested too deep to be read. Take it from its source.",
            file=sys.stderr,
        )
        sys.exit(2)
    except _EndedError:
        print(
            "Interrupted. All finished runs are kept; run the same command to resume.",
            file=sys.stderr,
        )
        sys.exit(1)
