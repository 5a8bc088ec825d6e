"""The two ways in which innolab stops, each with its exit status."""


class InnolabError(Exception):
    """The work failed; the message says what happened, what was expected and what to do.

    Exit status 1: something may have been recorded (a failed run, an unfinished report).
    """

    exit_status = 1

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the message, which says more to a reader than our calls."""
        return [f"{type(self).__name__}: {self}"]


class InputError(InnolabError):
    """What was asked for cannot be done as asked; nothing was written or changed.

    Exit status 2.
    """

    exit_status = 2
