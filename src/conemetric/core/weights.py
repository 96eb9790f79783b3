"""What rows and constraints weigh: the weights a user gives, and classes in balance."""

from typing import Any

import numpy as np

from .arrays import to_numpy

HEAVIEST = {4: 1e12, 8: 1e60}  # weights by the bytes of the numbers of X; the lightest is 1 over it


def check_weights(sample_weight: Any, n: int, kind: str) -> np.ndarray:
    """Weights of ``n`` things of this ``kind``, on the host in float64; one each for None.

    Examples
    --------
    >>> from conemetric.core.weights import check_weights
    >>> check_weights([1, 0, 2], 3, "rows of X")
    array([1., 0., 2.])
    """
    if sample_weight is None:
        return np.ones(n)
    weights = np.array(to_numpy(sample_weight), dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}; give one number for each of the {n} {kind}."
        )
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError(
            f"sample_weight holds {weights[~(weights >= 0) | np.isinf(weights)][0]}; weights are "
            "finite and not negative."
        )
    if not weights.any():
        raise ValueError(f"sample_weight is zero for all {n} {kind}; give some a weight.")
    return weights


def check_range(weights: np.ndarray, dtype: Any, name: str = "sample_weight") -> None:
    """Refuse weights other than zero that are too large or too small to compute with in the
    precision of X.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.core.weights import check_range
    >>> check_range(np.array([0.0, 1e-9, 1e9]), np.dtype(np.float32))
    """
    heaviest = HEAVIEST[dtype.itemsize]
    outside = (weights > heaviest) | ((weights > 0) & (weights < 1 / heaviest))
    if outside.any():
        raise ValueError(
            f"{name} holds {weights[outside][0]:.3g}; for X in {dtype} weights are zero or "
            f"between {1 / heaviest:g} and {heaviest:g}: divide all of them by their mean."
        )


def class_factors(class_weight: Any, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By what ``class_weight`` multiplies the weight of each row: "balanced" gives all
    classes the same weight in sum; a dict names the factors of some, the others have one.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.core.weights import class_factors
    >>> class_factors("balanced", np.array([0, 0, 0, 1]), np.ones(4)).round(3)
    array([0.667, 0.667, 0.667, 2.   ])
    """
    classes, number = np.unique(y, return_inverse=True)
    return factors_of_classes(class_weight, classes, np.bincount(number, weights))[number]


def factors_of_classes(class_weight: Any, classes: np.ndarray, in_sum: np.ndarray) -> np.ndarray:
    """`class_factors` of each class, whose rows weigh so much in sum."""
    if isinstance(class_weight, str):
        factors, there = np.zeros(len(classes)), in_sum > 0
        factors[there] = in_sum.sum() / (there.sum() * in_sum[there])
        return factors
    unknown = set(class_weight) - set(classes.tolist())
    if unknown:
        raise ValueError(
            f"class_weight names {sorted(unknown, key=str)[0]!r}, which is not among the labels y."
        )
    given = [class_weight.get(label, 1.0) for label in classes.tolist()]
    return check_weights(given, len(classes), "classes (class_weight)")
