"""Weights of rows and constraints: passed by the user, or balancing classes."""

from collections.abc import Mapping

import numpy as np

from .arrays import Labels, to_numpy

ClassWeight = Mapping[object, float] | str  # or "balanced"

# The largest weight, and one over the smallest, by the bytes of numbers in X: products of two weights
# and a squared distance stay within the range of the precision.
MAX_WEIGHT = {4: 1e12, 8: 1e60}


def check_weights(
    sample_weight: Labels | None, n: int, kind: str, name: str = "sample_weight"
) -> np.ndarray:
    """Return weights of ``n`` things of this ``kind``, checked, in float64 on the host; None: ones."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.array(to_numpy(sample_weight), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold one number for each of the {n} {kind}: {error}."
        ) from error
    if weights.shape != (n,):
        raise ValueError(
            f"{name} has shape {weights.shape}; pass one number for each of the {n} {kind}."
        )
    invalid = ~(np.isfinite(weights) & (weights >= 0))
    if invalid.any():
        raise ValueError(f"{name} holds {weights[invalid][0]}; pass finite weights >= 0.")
    if not weights.any():
        raise ValueError(f"{name} is zero for all {n} {kind}; pass a positive weight for some.")
    return weights


def check_range(weights: np.ndarray, dtype: np.dtype, name: str = "sample_weight") -> None:
    """Refuse nonzero weights too large or too small for the precision of X."""
    largest = MAX_WEIGHT[dtype.itemsize]
    smallest = 1 / largest
    outside = (weights > largest) | ((weights > 0) & (weights < smallest))
    if outside.any():
        raise ValueError(
            f"{name} holds {weights[outside][0]:.3g}; for X in {dtype} weights are zero or "
            f"between {smallest:g} and {largest:g}: divide all of them by their mean."
        )


def class_factors(class_weight: ClassWeight, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the factor by which ``class_weight`` multiplies the weight of each row.

    See `factors_of_classes`.
    """
    classes, class_of_row = np.unique(y, return_inverse=True)
    totals = np.bincount(class_of_row, weights)
    return factors_of_classes(class_weight, classes, totals)[class_of_row]


def factors_of_classes(
    class_weight: ClassWeight, classes: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Return the factor of each class, whose rows weigh ``totals`` together.

    "balanced" makes all classes with rows weigh the same and all rows together what they did; a dict
    has the factors of some classes, and the others have 1.
    """
    if isinstance(class_weight, str):
        factors = np.zeros(len(classes))
        occurs = totals > 0
        # a class without weight has no factor that would balance it, and none of its rows counts
        factors[occurs] = totals.sum() / (occurs.sum() * totals[occurs])
        return factors
    unknown = set(class_weight) - set(classes.tolist())
    if unknown:
        raise ValueError(
            f"class_weight names {sorted(unknown, key=str)[0]!r}, which is not among the labels y."
        )
    factor_of_each = [class_weight.get(label, 1.0) for label in classes.tolist()]
    return check_weights(factor_of_each, len(classes), "classes", "class_weight")
