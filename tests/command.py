"""The command in this process, as its entry point runs it: what it prints, and its exit status."""

import contextlib
import io
import signal
import sys
import traceback
from typing import NamedTuple
from unittest import mock

from innolab import cli


class Done(NamedTuple):
    """A call that has ended; of one that broke, `err` ends with the traceback and status is 70."""

    status: int
    out: str
    err: str


def called(*words: str) -> Done:
    """Call `innolab` with words, as `main` does: signals are set back afterwards."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    status = 0
    with (
        mock.patch.object(sys, "argv", ["innolab", *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except Exception:
            traceback.print_exc(file=err)
            status = 70
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    return Done(status, out.getvalue(), err.getvalue())


def explained(done: Done) -> None:
    """Require that a call has done its work, or says in one paragraph why it has not."""
    assert done.status in (0, 1, 2), done.err[-3000:]
    assert "Traceback" not in done.err, done.err[-3000:]
    if done.status:
        said = done.err.strip()
        assert 10 < len(said) < 2500, said[:3000]
        assert "\n" not in said or "Usage: " in said, said
        assert said.replace("\n", "").isprintable(), repr(said)
