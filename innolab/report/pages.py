"""Pages of the collection itself, beside those of reports: from a template, in one style."""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from innolab.base import files
from innolab.base.errors import InputError
from innolab.report import markup
from innolab.report.figures import Figure
from innolab.report.render import TEMPLATES


def write(path: Path, template: str, **values: Any) -> Path:
    """Write a page and return its path; values that are not `Markup` are escaped.

    Raises
    ------
    InputError
        Where its folder cannot be written.
    """
    loader = jinja2.FileSystemLoader(TEMPLATES)
    environment = jinja2.Environment(loader=loader, autoescape=True)
    sheet = markup.Sheet()
    environment.filters["fit"] = lambda figure: _fit(figure, sheet)
    environment.filters["with_contents"] = markup.with_contents
    page = environment.get_template(template).render(
        style=Markup((TEMPLATES / "style.css").read_text()), sheet=sheet, policy=markup.policy,
        script=Markup((TEMPLATES / "figures.js").read_text()), **values,
    )  # fmt: skip
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, page)
    except OSError as error:
        raise cannot_write(path, error) from None
    return path


def _fit(figure: Figure | Markup, sheet: markup.Sheet) -> Markup:
    """Return a figure in a box that the keyboard can scroll where the screen is narrower."""
    html = figure._repr_html_() if isinstance(figure, Figure) else figure
    fitted = str(sheet.fit(html))
    return Markup(fitted.replace('<div class="scroll', '<div tabindex="0" class="scroll'))


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error to raise where something below the reports' folder cannot be written."""
    return InputError(
        f"{path} cannot be written ({error.strerror}). Make its folder writable, or name "
        "another with INNOLAB_REPORTS."
    )
