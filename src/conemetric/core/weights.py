"""Weights of rows and constraints: given by the user, or balancing classes."""

from collections.abc import Mapping

import numpy as np

from .arrays import Labels, to_numpy

ClassWeight = Mapping[object, float] | str  # or "balanced"

# the largest weight, and one over the smallest, by the bytes of numbers in X: products of two weights
# and a squared distance stay within the range of the precision
HEAVIEST = {4: 1e12, 8: 1e60}


def check_weights(
    sample_weight: Labels | None, n: int, kind: str, name: str = "sample_weight"
) -> np.ndarray:
    """Weights of ``n`` things of this ``kind``, checked, in float64 on the host; None: ones."""
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
            f"{name} has shape {weights.shape}; give one number for each of the {n} {kind}."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"{name} holds {weights[~(weights >= 0) | np.isinf(weights)][0]}; give finite "
            "weights >= 0."
        )
    if not weights.any():
        raise ValueError(f"{name} is zero for all {n} {kind}; give some a positive one.")
    return weights


def check_range(weights: np.ndarray, dtype: np.dtype, name: str = "sample_weight") -> None:
    """Refuse nonzero weights too large or too small for the precision of X."""
    heaviest = HEAVIEST[dtype.itemsize]
    outside = (weights > heaviest) | ((weights > 0) & (weights < 1 / heaviest))
    if outside.any():
        raise ValueError(
            f"{name} holds {weights[outside][0]:.3g}; for X in {dtype} weights are zero or "
            f"between {1 / heaviest:g} and {heaviest:g}: divide all of them by their mean."
        )


def class_factors(class_weight: ClassWeight, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The factor by which ``class_weight`` multiplies the weight of each row: "balanced" gives all
    classes the same total weight; a dict has the factors of some classes, the others have 1.
    """
    classes, number = np.unique(y, return_inverse=True)
    return factors_of_classes(class_weight, classes, np.bincount(number, weights))[number]


def factors_of_classes(
    class_weight: ClassWeight, classes: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """The factor of each class, given the total weight of its rows."""
    if isinstance(class_weight, str):
        factors, there = np.zeros(len(classes)), totals > 0
        factors[there] = totals.sum() / (there.sum() * totals[there])
        return factors
    unknown = set(class_weight) - set(classes.tolist())
    if unknown:
        raise ValueError(
            f"class_weight names {sorted(unknown, key=str)[0]!r}, which is not among the labels y."
        )
    given = [class_weight.get(label, 1.0) for label in classes.tolist()]
    return check_weights(given, len(classes), "classes", "class_weight")
