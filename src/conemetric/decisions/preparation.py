"""From rows as users have them to the points that metrics are learned from.

Data frames and arrays with categories or missing values are encoded; columns of plain numbers are centred
and scaled to unit variance. Both are learned once, in ``fit``, and do not change afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import issparse

from ..core import arrays
from ..core.arrays import Array, Labels, Rows
from ..core.sparse_rows import SparseRows
from ..core.warn import collected_warnings
from ..core.weights import ClassWeight, check_weights, class_factors
from ..estimators.validation import LARGEST_EXTENT
from ..tables.columns import frame_of
from ..tables.encoder import TableEncoder
from ..tables.spelling import Spelling

# Smallest weight of a row relative to the largest: float32 holds a ridge that is divided by it.
MIN_RELATIVE_WEIGHT = 1e-12
# Largest number of an array that needs no encoding, if its precision is not one of `LARGEST_EXTENT`.
LARGEST_UNENCODED = 1e15


@dataclass(frozen=True)
class Preparation:
    """How rows become points.

    Attributes
    ----------
    encoder : TableEncoder or None
        Encodes tables, and scales what it encodes; None for numbers that need no encoding.
    centre, scale : arrays (n_features,)
        Subtracted from encoded rows, and what they are then divided by.
    """

    encoder: TableEncoder | None
    centre: Array
    scale: Array

    @classmethod
    def learned(cls, encoder: TableEncoder | None, X: Array) -> Self:
        """Centre and scale the columns of encoded rows, unless an ``encoder`` has done so."""
        if encoder is not None:
            n_features = X.shape[1]
            return cls(encoder, np.zeros(n_features), np.ones(n_features))
        precise = arrays.float64(X)
        centre = precise.mean(0)
        # relative to the first row, so that a constant column has no spread by rounding
        spread = (precise - precise[:1]).std(0)
        xp = arrays.namespace(X)
        scale = xp.where(spread > 0, spread, xp.ones_like(spread))
        return cls(None, arrays.like(centre, X), arrays.like(scale, X))

    def points(self, X: Array) -> Array:
        """Encoded rows of ``fit`` as points."""
        return (X - self.centre) / self.scale

    def new_points(self, X: Array) -> Array:
        """Encoded new rows as points; an error if they are far from all rows of ``fit``."""
        points = (X - arrays.like(self.centre, X)) / arrays.like(self.scale, X)
        # their squares would leave the range of floats, and the prediction would look sure: 1e200
        # got a narrow interval
        if bool((abs(points) > LARGEST_EXTENT[points.dtype.itemsize]).any()):
            raise ValueError("X has values far beyond those seen during fit; correct or drop them.")
        return points

    def block_of_feature(self, n_features: int) -> np.ndarray | None:
        """The number of the encoder's block that each feature is in; None without an encoder."""
        if self.encoder is None:
            return None
        numbers = np.empty(n_features, int)
        for number, block in enumerate(self.encoder.blocks_):
            numbers[block.features] = number
        return numbers


class Observed(NamedTuple):
    """Encoded rows that have a weight, and what is known of each."""

    X: Array
    y: np.ndarray
    weights: np.ndarray  # the largest is 1
    groups: np.ndarray | None
    numbers: np.ndarray  # of the rows, in the X of ``fit``
    encoder: TableEncoder | None


def relative_weights(
    sample_weight: Labels | None, class_weight: ClassWeight | None, y: np.ndarray
) -> np.ndarray:
    """The weights of the rows, with the factors of their classes, relative to the largest."""
    weights = check_weights(sample_weight, len(y), "rows of X")
    if class_weight is not None:
        weights = weights * class_factors(class_weight, y, weights)
    weights = weights / weights.max()
    smallest = weights[weights > 0].min()
    if smallest < MIN_RELATIVE_WEIGHT:
        raise ValueError(
            f"the smallest weight of a row (sample_weight, class_weight) is {smallest:.1e} of the "
            f"largest; set weights below {MIN_RELATIVE_WEIGHT:g} of it to 0."
        )
    return weights


# ---- tables


def new_encoder(
    X: Rows, categorical_features: Any, kinds: Mapping[str | int, str | Spelling] | None
) -> TableEncoder | None:
    """The unfitted encoder of a table; None for an array of numbers that needs none."""
    if arrays.is_torch(X) or issparse(X) or isinstance(X, SparseRows):
        return None
    by_dtype = isinstance(categorical_features, str | None) and not kinds
    if by_dtype and frame_of(X) is None and not _needs_encoding(X):
        return None
    return TableEncoder(categorical_features=categorical_features, kinds=kinds, sparse_output=False)


def fit_encoder(encoder: TableEncoder, X: Rows, sample_weight: Labels | None) -> Array:
    """Fit the encoder to the rows that have a weight, and encode all of them."""
    has_weight = None
    if sample_weight is not None:
        has_weight = np.asarray(sample_weight) != 0
    encoder.fit(X, sample_weight=has_weight)
    with collected_warnings():  # of categories that only rows without a weight have
        return encoder.transform(X)


def _needs_encoding(X: Rows) -> bool:
    """Tell whether an array has text, missing values, or columns whose squares leave the range of floats."""
    values = np.asarray(X)
    if values.dtype.kind in "OUS":
        return True
    if values.dtype.kind != "f" or values.ndim != 2 or not values.size:
        return False
    extent = abs(values).max(0)
    if np.isnan(extent).any():
        return True
    largest = LARGEST_EXTENT.get(values.dtype.itemsize, LARGEST_UNENCODED)
    too_large = extent > largest
    too_small = (extent > 0) & (extent < 1 / largest)
    return bool(((too_large | too_small) & np.isfinite(extent)).any())
