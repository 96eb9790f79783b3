"""One self-contained HTML page about a learned metric or an adapted embedding: what it
gained, what it looks at, and how far it is proven.
"""

from .metric import write_report

__all__ = ["write_report"]
