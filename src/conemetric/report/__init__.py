"""One self-contained HTML page about a learned metric: what it gained, what it looks
at, and how far it is proven.
"""

from .page import write_report

__all__ = ["write_report"]
