"""What notebooks show: values as a small table."""

from collections.abc import Mapping
from html import escape


def html_table(caption: str, rows: Mapping[str, object]) -> str:
    """Names and values as HTML, everything escaped.

    Examples
    --------
    >>> from conemetric.core.notebooks import html_table
    >>> html_table("sizes", {"a < b": 1})
    '<table><caption>sizes</caption><tr><th>a &lt; b</th><td>1</td></tr></table>'
    """
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>"
