"""One self-contained HTML page about a learned metric or an adapted embedding."""

from .metric import write_report

__all__ = ["write_report"]
