"""Templates filled in: a page is one HTML file that needs no network."""

from os import PathLike
from typing import Any, NamedTuple

from ... import __version__
from ...core.extras import require
from ...storage import atomic_path


class Card(NamedTuple):
    """One number of the summary, with its name and its source; ``kind`` colours it."""

    title: str
    value: str
    note: str
    kind: str = ""


def write_page(path: str | PathLike, template: str, fields: dict[str, Any]) -> None:
    """Fill the template, which escapes every field, and write the page whole or not at all."""
    jinja2 = require("jinja2", "cli")
    templates = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = templates.get_template(template).render(version=__version__, **fields)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
