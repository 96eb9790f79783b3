"""What notebooks show: values as a small table."""

from collections.abc import Mapping
from html import escape


def html_table(caption: str, rows: Mapping[str, object]) -> str:
    """Return names and values as an HTML table with a caption, everything escaped."""
    lines = []
    for name, value in rows.items():
        lines.append(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>")
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"
