"""The linear operator A and its adjoint A*, over pairs of points (`from_triplets`, `from_pairs`) or
given matrices.
"""

from .base import DifferenceOperator, Operator
from .difference import from_pairs, from_triplets
from .matrices import MatrixOperator

__all__ = ["DifferenceOperator", "MatrixOperator", "Operator", "from_pairs", "from_triplets"]
