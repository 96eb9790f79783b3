"""What notebooks show: values as a small table."""

from collections.abc import Mapping
from html import escape


def html_table(caption: str, rows: Mapping[str, object]) -> str:
    """Names and values as HTML, everything escaped."""
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{escape(caption)}</caption>{lines}</table>"
