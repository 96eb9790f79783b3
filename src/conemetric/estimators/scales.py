"""The warning about columns whose scales differ by orders of magnitude."""

from typing import Any

import numpy as np

from ..core.arrays import take, to_numpy
from ..core.sparse_rows import SparseRows
from ..core.warn import warn_user

# 11 of 40 data sets (KEEL, pixels, embeddings) exceed this factor, and FrobMetric with 3-NN errs
# more on each of them without StandardScaler: vehicle (23) 30.2 against 25.2 %, wine (520) 34.0
# against 4.3 %. Principal components of pixels reach 16.
LARGEST_FACTOR = 20
SMALLER = 0.25  # the quantile of the columns that the largest is compared with
SCALE_SAMPLE = 1000  # rows that are looked at
FEWEST_ROWS = 10  # fewer may differ by chance


class ScaleWarning(UserWarning):
    """A few columns of X are so much larger than the others that they decide the distances."""


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
    deviation /= most
    # standardised columns have the same spread, and pixels and indicators deviations of the same
    # size, however few rows deviate
    squares = (deviation**2).mean(0)
    spread, size = most * squares**0.5, most * squares / deviation.mean(0)
    if min(map(_factor, (spread, size))) < LARGEST_FACTOR:
        return
    largest, name = varying[spread.argmax()], type(estimator).__name__
    names = getattr(estimator, "feature_names_in_", None)
    warn_user(
        f"Column {largest if names is None else repr(str(names[largest]))} of X is "
        f"{_factor(spread):,.0f} times as large as a quarter of the columns, so it decides the "
        f"distances that {name} learns from; scale the columns: make_pipeline(StandardScaler(), "
        f"{name}()).",
        ScaleWarning,
    )


def _factor(scales):
    """How much the largest scale exceeds the smaller ones."""
    with np.errstate(over="ignore"):
        return scales.max() / np.quantile(scales, SMALLER, method="lower")
