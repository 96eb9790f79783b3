"""Warnings about a fit: a metric that maps the points to few places, columns whose scales differ by
orders of magnitude.
"""

from typing import Any

import numpy as np

from ..core.advice import Advice
from ..core.arrays import like, take, to_numpy
from ..core.sparse_rows import SparseRows
from ..core.warn import warn_user

# chosen by judgement: a metric has collapsed if it maps a sample of the rows to few places
USELESS_SAMPLE = 1000  # rows
SAME_PLACE = 1e-9  # distance of mapped rows, relative to the extent of all of them
FEW_PLACES = 0.1  # relative to the number of places in X

# 11 of 40 data sets (KEEL, pixels, embeddings) exceed this factor, and FrobMetric with 3-NN errs
# more on each of them without StandardScaler: vehicle (23) 30.2 against 25.2 %, wine (520) 34.0
# against 4.3 %. Principal components of pixels reach 16.
LARGEST_FACTOR = 20
SMALLER = 0.25  # the quantile of the columns that the largest is compared with
SCALE_SAMPLE = 1000  # rows that are looked at
FEWEST_ROWS = 10  # fewer may differ by chance


class CollapsedMetricWarning(Advice, UserWarning):
    """The metric has collapsed: it maps all points, or nearly all, to the same place."""


def warn_if_collapsed(points: Any, L: Any, name: str, remedy: str, solved: bool) -> None:
    """Warn if the metric L L' that ``name`` learned, to the optimum if ``solved``, is zero, or tells
    few of the points apart.
    """
    rows = np.linspace(0, len(points) - 1, min(len(points), USELESS_SAMPLE)).astype(int)
    sample = take(points, rows)
    rng = np.random.default_rng(0)
    view = like(rng.standard_normal((points.shape[1], 4)), L)  # shows which rows differ
    n_before = _n_places(to_numpy(sample @ like(view, points)))
    n_after = _n_places(to_numpy(sample @ like(L, points)))
    if n_before > 1:
        few = n_after <= max(1, FEW_PLACES * n_before)
    else:  # a sample of equal rows shows nothing about a metric that is not zero
        few = not bool((L != 0).any())
    if not few:
        return
    fault = f"maps {n_before} distinct rows of X to {n_after} points"
    if n_after == 1:
        fault = "is zero"
    reason = "The solver ended before the optimum, which may be another"
    if solved:
        reason = "It is optimal, but the classes overlap too much for the program to separate them"
    warn_user(
        CollapsedMetricWarning(
            f"The metric that {name} learned {fault}, so nearest neighbours are arbitrary. {reason}",
            {"method": f"try {remedy}", "": "keep the Euclidean distance"},
        )
    )


def _n_places(rows):
    """Number of distinct rows, with those nearer than `SAME_PLACE` counted as one."""
    rows = rows.astype(np.float64)
    rows = rows - rows.mean(0)
    extent = abs(rows).max(initial=0.0)
    if not extent > 0:
        return 1
    return len(np.unique(np.round(rows / (SAME_PLACE * extent)), axis=0))


class ScaleWarning(UserWarning):
    """A few columns of X are so much larger than the others that they decide the distances."""


def warn_if_guessed(name: str, y: np.ndarray) -> None:
    """Warn that numbers are taken for a quantity if they are whole: they may be meant as classes."""
    if (y == np.round(y)).all():
        warn_user(
            f"y has {len(np.unique(y))} whole numbers in {len(y)} rows, too many to be "
            f"classes; {name} takes them for a quantity: rows near in y should be near in the "
            "metric. Pass target='continuous' or target='classes' to fit."
        )


def warn_if_unscaled(estimator: Any, X: Any) -> None:
    """Warn if the scales of the columns of X differ by orders of magnitude, unless X is sparse
    or the estimator has a prior that may know the scales.
    """
    prior = getattr(estimator, "prior", None)
    known = prior is not None and not isinstance(prior, str)
    if known or isinstance(X, SparseRows) or len(X) < FEWEST_ROWS:
        return
    rows = np.linspace(0, len(X) - 1, min(len(X), SCALE_SAMPLE)).astype(int)
    sample = to_numpy(take(X, rows)).astype(np.float64)
    varying = np.flatnonzero((sample != sample[:1]).any(0))
    if len(varying) < 2:
        return
    deviation = abs(sample - sample.mean(0))[:, varying]
    most = deviation.max(0)
    deviation /= most  # so that squares of large columns stay finite
    # standardised columns have the same spread, and pixels and indicators deviations of the same
    # size, however few rows deviate
    squares = (deviation**2).mean(0)
    spread = most * squares**0.5
    size = most * squares / deviation.mean(0)
    if min(_factor(spread), _factor(size)) < LARGEST_FACTOR:
        return
    name = type(estimator).__name__
    column = str(varying[spread.argmax()])
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        column = repr(str(names[varying[spread.argmax()]]))
    warn_user(
        f"Column {column} of X is {_factor(spread):,.0f} times as large as a quarter of the columns, so it decides the "
        f"distances that {name} learns from; scale the columns: make_pipeline(StandardScaler(), "
        f"{name}()).",
        ScaleWarning,
    )


def _factor(scales):
    """How much the largest scale exceeds the smaller ones."""
    with np.errstate(over="ignore"):
        return scales.max() / np.quantile(scales, SMALLER, method="lower")
