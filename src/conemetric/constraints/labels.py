"""Class labels of rows, checked and encoded, and whether a y holds labels or a quantity."""

from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..core.arrays import to_numpy
from ..core.warn import warn_user
from ..core.wording import plural

LOWER_TARGETS = "lower n_targets or merge classes"  # the remedy for small classes
# Of `is_continuous`, chosen on a few hundred columns of public tables, so that few shots of many classes,
# and ids of people, stay classes, and counts, ages, scores and prices do not.
MAX_CLASS_VALUES = 20  # whole numbers; as few are classes unless most rows have one of their own
FEWEST_ROWS = 10  # of which some may be alone with their value; fewer say nothing
FEW_ROWS = 3  # of one value; most classes have more
EVEN_SHARE = 0.9  # of the values that have the same number of rows, as few shots of classes have
MIN_SHARE_OF_NUMBERING = 0.95  # of the numbers from 0 to the largest that are labels
# The same of many labels: of thousands of people with few pictures each, a random part lacks some.
MANY_LABELS = 200
MIN_SHARE_OF_MANY = 0.75
MIN_SMOOTHNESS_OF_NUMBERING = 0.75  # rank correlation of the rows of neighbours; of classes about 0
MIN_SMOOTHNESS = 0.35  # the same, where labels do not number classes
SURE = 2.5  # standard errors of that correlation
MAX_SPREAD = 0.22  # standard deviation by range; 0.29 if rows are spread evenly, as over codes


def check_labels(
    y: Any, n_same: int, remedy: str = "merge classes", takes_quantities: bool = False
) -> np.ndarray:
    """Encode class labels as 0, 1, ... (-1: none); refuse a single class, and warn about rows
    without a label and classes whose rows have fewer than ``n_same`` others.
    """
    codes = encode_labels(y)
    classes, counts = np.unique(np.ravel(to_numpy(y)), return_counts=True)
    check_class_sizes(classes, counts, n_same, remedy, takes_quantities)
    return codes


def check_class_sizes(
    classes: np.ndarray,
    counts: np.ndarray,
    n_same: int,
    remedy: str,
    takes_quantities: bool = False,
) -> None:
    """The checks of `check_labels`, given the sorted labels and their numbers of rows."""
    n_rows = counts.sum()
    n_unlabelled = 0
    if first_means_none(classes):
        n_unlabelled = counts[0]
        classes = classes[1:]
        counts = counts[1:]
    if len(classes) < 2:
        raise ValueError(
            f"y has 1 class, {classes.tolist()[0]!r}, in {n_rows} rows; a metric is learned "
            "between classes: pass at least two."
        )
    if n_unlabelled:
        warn_user(
            f"{n_unlabelled} of {n_rows} rows have the label -1, which means unlabelled: they "
            "are left out of all constraints. If -1 is one of the classes, number them from 0."
        )
    quantity = ""
    if takes_quantities and classes.dtype.kind in "iuf":
        quantity = ", or pass target='continuous' if y is a quantity"
    if counts.max() < 2:
        raise ValueError(
            f"y has {len(classes)} classes of one row each, so no row has another of its class; "
            f"pass at least two rows of a class{quantity}."
        )
    if len(classes) > MAX_CLASS_VALUES:  # fewer are hardly values of a quantity
        remedy += quantity
    _warn_of_small(classes, counts, n_same, remedy)


def _warn_of_small(classes: np.ndarray, counts: np.ndarray, n_same: int, remedy: str) -> None:
    """Warn of classes whose rows have fewer than ``n_same`` others."""
    small = classes[counts <= n_same]
    if len(small):
        warn_user(
            f"{len(small)} of {len(classes)} classes have {n_same} or fewer rows (first: "
            f"{small.tolist()[0]!r}), so their rows have fewer than {n_same} others of their "
            f"class; {remedy}."
        )


def encode_labels(y: Any) -> np.ndarray:
    """Labels as 0, 1, ... in sorted order; -1 for rows without one.

    As in scikit-learn's semi-supervised estimators, UMAP and metric-learn, -1 marks a row
    without a label, provided that two or more classes are numbers from 0 on. (With -1 and
    1, or -1 and 0, it is a class.)
    """
    y = np.ravel(to_numpy(y))
    refuse_missing_labels(y)
    if y.dtype.kind != "f":  # `is_continuous` decides about those
        check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if first_means_none(classes):
        return codes - 1
    return codes


def first_means_none(classes: np.ndarray) -> bool:
    """Whether -1, the first of these sorted labels, marks rows without a label."""
    numbers = classes.dtype.kind in "if" and len(classes) > 2
    return bool(numbers and classes[0] == -1 and classes[1] >= 0)


def refuse_missing_labels(
    y: np.ndarray, where: str = "", advice: str = ", or label them -1"
) -> None:
    """Refuse labels that are None, NaN, NaT or pandas' NA, and name the first."""
    if y.dtype.kind in "OM":
        missing = np.array([_is_missing(label) for label in y])
    else:
        missing = y != y
    if missing.any():
        labels = plural(int(missing.sum()), "missing label")
        first = int(missing.argmax())
        raise ValueError(f"y has {labels} (first: row {first}{where}); drop those rows{advice}.")


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas' NA, which cannot be compared."""
    return label is None or type(label).__name__ == "NAType" or label != label


def is_continuous(y: Any, target: str = "auto", counts: np.ndarray | None = None) -> bool:
    """Whether y is a quantity rather than class labels. With ``counts``, y holds sorted values and
    these their numbers of rows.

    ``target`` is "classes", "continuous" or "auto", which takes numbers with a fractional
    part for a quantity, and strings, booleans and categories for classes. Whole numbers number
    classes if they leave out at most a twentieth of the numbers from 0 to the largest, or a quarter if
    there are more than 200 of them. Others are a quantity if most rows have a value of their own, so
    that nothing is learned between classes. Else whole numbers are classes unless there are more than
    20 values and one of these holds:

    - they do not number classes, and most values have three rows or fewer, or most rows are in a
      small part of the range, or values near each other have about equally many rows (counts,
      prices, scores, ages);
    - they are 0, 1, 2, ..., values near each other have about equally many rows, and those at both ends
      fewer than those between them.

    If nearly all values have the same number of rows, two or more, they are few shots of many classes.
    """
    y = np.ravel(to_numpy(y))
    if target not in ("auto", "classes", "continuous"):
        raise ValueError(f"target={target!r} is not known; use 'auto', 'classes' or 'continuous'.")
    if target == "auto" and y.dtype.kind not in "iuf":
        return False
    refuse_missing_labels(y)
    if target == "continuous" and y.dtype.kind not in "iufb":
        raise ValueError(
            f"target='continuous' is for numbers, and y holds {y.tolist()[0]!r}; pass numbers, or "
            "target='classes'."
        )
    if target != "auto":
        return target == "continuous"
    values = y
    if counts is None:
        values, counts = np.unique(y, return_counts=True)
    if values.dtype.kind == "f" and type_of_target(values) == "continuous":
        return True
    if first_means_none(values) and counts[0] > counts[1:].max():
        return False  # rows without a label
    if _are_mostly_alone(counts) and not _number_classes(values):
        return True
    if len(values) <= MAX_CLASS_VALUES or _are_few_shots(counts):
        return False
    return _counts_or_measures(values, counts)


def _are_mostly_alone(counts: np.ndarray) -> bool:
    """Whether most rows have a value that no other row has."""
    n_rows = counts.sum()
    return bool(n_rows >= FEWEST_ROWS and (counts == 1).sum() > n_rows / 2)


def _counts_or_measures(values: np.ndarray, counts: np.ndarray) -> bool:
    """Whether many sorted whole numbers with these numbers of rows are a quantity."""
    smoothness = 0.0
    # numbers that are all equal have no correlation
    if np.ptp(counts[1:]) > 0 and np.ptp(counts[:-1]) > 0:
        smoothness = spearmanr(counts[1:], counts[:-1])[0]
    if _number_classes(values):
        first, *middle, last = (tenth.mean() for tenth in np.array_split(counts, 10))
        # rows that rise or fall from end to end may be those of labels numbered by how common they are
        peaked = first < max(middle) > last
        return bool(peaked and smoothness >= MIN_SMOOTHNESS_OF_NUMBERING)
    if (counts <= FEW_ROWS).mean() > 1 / 2 or _spread(values, counts) <= MAX_SPREAD:
        return True
    # by Fisher's transform, whose standard error is that of so many pairs of neighbours
    sure = np.arctanh(min(smoothness, 1 - 1e-9)) * (len(values) - 4) ** 0.5 >= SURE
    return bool(sure and smoothness >= MIN_SMOOTHNESS)


def _number_classes(values: np.ndarray) -> bool:
    """Whether sorted values are nearly all whole numbers from 0, or 1, to the largest."""
    share = MIN_SHARE_OF_NUMBERING
    if len(values) > MANY_LABELS:
        share = MIN_SHARE_OF_MANY
    return values[0] >= 0 and len(values) >= share * (float(values[-1]) + 1)


def _spread(values: np.ndarray, counts: np.ndarray) -> float:
    """The standard deviation of the rows over their range."""
    # as floats: the range of 64-bit integers may not fit in one
    scaled = (values.astype(float) - float(values[0])) / (float(values[-1]) - float(values[0]))
    mean = np.average(scaled, weights=counts)
    return float(np.average((scaled - mean) ** 2, weights=counts) ** 0.5)


def _are_few_shots(counts: np.ndarray) -> bool:
    """Whether nearly all values have the same number of rows, two or more."""
    sizes, n_values = np.unique(counts, return_counts=True)
    most_common_size = int(sizes[n_values.argmax()])
    return most_common_size > 1 and bool(n_values.max() >= EVEN_SHARE * len(counts))


def refuse_continuous(
    y: np.ndarray, target: str, name: str, counts: np.ndarray | None = None
) -> None:
    """Refuse a quantity if classes are needed; ``name`` is the estimator's."""
    if is_continuous(y, target, counts):
        n_rows = len(y)
        if counts is not None:  # then y has each value once
            n_rows = counts.sum()
        raise ValueError(
            f"{name} learns between classes, and y is a quantity, with {len(np.unique(y))} values "
            f"in {n_rows} rows; pass target='classes' if each value is a class, or learn from "
            "it in memory by FrobMetric, BoostMetric, GradientMetric or RelativeComparisons."
        )
