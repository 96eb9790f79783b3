"""Who is near whom: the nearest points of the same and of other labels."""

from .exact import neighbours_by_label

__all__ = ["neighbours_by_label"]
