"""Tables of numbers, words, dates and gaps as blocks of numbers."""

from .encoder import Block, TableEncoder, TableSummary

__all__ = ["Block", "TableEncoder", "TableSummary"]
