"""Pages of the collection itself, beside those of reports: from a template, in one style."""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from innolab.base import files
from innolab.base.errors import InputError
from innolab.report.render import TEMPLATES


def write(path: Path, template: str, **values: Any) -> Path:
    """Write a page and return its path; texts in `values` are escaped, markup is not.

    Raises
    ------
    InputError
        Where its folder cannot be written.
    """
    loader = jinja2.FileSystemLoader(TEMPLATES)
    found = jinja2.Environment(loader=loader, autoescape=True).get_template(template)
    page = found.render(style=Markup((TEMPLATES / "style.css").read_text()), **values)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, page)
    except OSError as error:
        raise cannot_write(path, error) from None
    return path


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error to raise where something below the reports' folder cannot be written."""
    return InputError(
        f"{path} cannot be written ({error.strerror}). Make its folder writable, or name "
        "another with INNOLAB_REPORTS."
    )
