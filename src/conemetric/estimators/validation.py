"""Checks of the points that estimators are given: arrays, tensors, sparse matrices, frames."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from ..constraints.labels import refuse_missing_labels
from ..core.arrays import (
    is_dask,
    is_torch,
    namespace,
    refuse_masked,
    refuse_repeated_names,
    to_numpy,
)
from ..core.dates import refuse_dates
from ..core.sparse_rows import SparseRows

FLOATS = [np.float64, np.float32]  # as scikit-learn takes dtypes
# A sparse X is solved over its rows or its features, whichever are fewer, with dense
# eigendecompositions of that order in every iteration.
MAX_SPARSE_ORDER = 5000
MAX_DENSE_ENTRIES = 1 << 27  # of a sparse X made dense: 1 GiB in float64
# Largest extent of X by the bytes of its numbers: float32 holds sums of its square, float64
# sums of its fourth power. The smallest is the inverse.
LARGEST_EXTENT = {4: 1e15, 8: 1e60}


def validate_points(estimator: Any, X: Any, *, reset: bool = False, min_samples: int = 1) -> Any:
    """Valid points, a sparse matrix as `SparseRows`; with ``reset`` as in a fit, else refused
    unless they have the features of the fit.
    """
    refuse_unusable(estimator, X)
    rules: dict[str, Any] = {"skip_check_array": True}
    if is_torch(X):
        X = check_tensor(X, min_samples)
    else:
        refuse_dates(X)
        if isinstance(X, SparseRows):
            X = X.matrix
        accepted: str | bool = False
        if get_tags(estimator).input_tags.sparse:
            accepted = "csr"
        rules = {"ensure_min_samples": min_samples, "dtype": FLOATS, "accept_sparse": accepted}
    try:
        X = validate_data(estimator, X, reset=reset, **rules)
    except ValueError as error:
        fault = _unusable_value(X, type(estimator).__name__)
        if fault is None:
            raise
        raise ValueError(fault) from error
    if reset:
        check_extent(X)
    if not issparse(X):
        return X
    if reset and min(X.shape) > MAX_SPARSE_ORDER:
        raise ValueError(
            f"X is sparse with {X.shape[0]} rows and {X.shape[1]} features; rows or features "
            f"must be at most {MAX_SPARSE_ORDER}. {_fewer_features(estimator)}"
        )
    return SparseRows(X)


def _unusable_value(X: Any, name: str) -> str | None:
    """The first column with an entry that is no number, where it is, and what to do; None if scikit-learn
    refused X for another reason.
    """
    if is_torch(X) or issparse(X) or np.ndim(X) != 2:
        return None
    if hasattr(X, "columns"):
        columns = {f"column {i} ({label!r})": X[label] for i, label in enumerate(X.columns)}
    else:
        columns = {f"column {i}": column for i, column in enumerate(np.asarray(X).T)}
    for title, column in columns.items():
        if np.iscomplexobj(column):
            return None
        try:
            values = np.asarray(column, np.float64)
        except (TypeError, ValueError):
            return _holds_words(title, column, name)
        if np.isnan(values).any():
            remedy = f"put a SimpleImputer, or a TableEncoder, before {name}"
            return _contains("NaN", title, np.isnan(values), remedy)
        if np.isinf(values).any():
            return _contains("infinity", title, np.isinf(values), "replace it, or drop those rows")
    return None


def _holds_words(title: str, column: Any, name: str) -> str | None:
    """What is wrong with a column that cannot be made numbers; None if it holds no words either."""
    for entry in column:
        if isinstance(entry, str) and not _spells_a_number(entry):
            return (
                f"{title} of X holds text, such as {str(entry)!r}: {name} takes numbers. Put a "
                f"TableEncoder before it: make_pipeline(TableEncoder(), {name}())."
            )
    return None


def _spells_a_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _contains(what: str, title: str, found: np.ndarray, remedy: str) -> str:
    """That a column has such values, how many and where."""
    first, n = int(found.argmax()), int(found.sum())
    return f"Input X contains {what}: {title}, first in row {first}, {n} in all; {remedy}."


def validate_labelled_points(estimator: Any, X: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Valid points to fit, and y as a NumPy vector with one label for each."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None; pass "
            "labels y."
        )
    X = validate_points(estimator, X, reset=True, min_samples=2)
    refuse_masked(y, "y")
    y = column_or_1d(to_numpy(y), warn=True)
    refuse_missing_labels(y)
    assert_all_finite(y, input_name="y")
    if len(y) != X.shape[0]:
        raise ValueError(
            f"y has {len(y)} labels for the {X.shape[0]} rows of X; pass one for each."
        )
    return X, y


def refuse_unusable(estimator: Any, X: Any) -> None:
    """Refuse what neither an array of numbers nor a table can be made of."""
    refuse_dask(estimator, X)
    refuse_masked(X, "X")
    refuse_repeated_names(getattr(X, "columns", ()))


def dense(estimator: Any, X: Any) -> Any:
    """X as a dense array, for estimators that need one."""
    if not isinstance(X, SparseRows):
        return X
    n, D = X.shape
    if n * D > MAX_DENSE_ENTRIES:
        raise ValueError(
            f"{type(estimator).__name__} must make X, {n} x {D}, dense, which takes "
            f"{n * D * X.dtype.itemsize / 1e9:.0f} GB. {_fewer_features(estimator)}"
        )
    return X.toarray()


def _fewer_features(estimator):
    name = type(estimator).__name__
    return f"Reduce the features first: make_pipeline(TruncatedSVD(300), {name}())."


def rows_coincide(X: Any) -> bool:
    """Whether all rows are equal, bit for bit: rounding a mean would set them apart."""
    if isinstance(X, SparseRows):
        return not (X.matrix.max(0) - X.matrix.min(0)).toarray().any()
    return not bool((X[:1] != X).any())


def check_extent(X: Any) -> None:
    """Refuse an X whose extent, or distance from the origin, is out of range."""
    if issparse(X):
        spread = float(abs(X.data).max(initial=0.0))
    else:
        xp = namespace(X)
        with np.errstate(over="ignore"):
            spread = float((xp.amax(X, 0) - xp.amin(X, 0)).max())
    check_size(spread, X.dtype, "X")
    largest = spread
    if not issparse(X):  # the entries of a sparse X are distances from the origin, too
        largest = float(abs(X).max())
    if largest > LARGEST_EXTENT[X.dtype.itemsize] ** 2:
        raise ValueError(f"X has entries as large as {largest:.1e}; centre and rescale it.")


def check_size(size: float, dtype: Any, name: str) -> None:
    """Refuse an extent whose powers are out of the range of ``dtype``."""
    largest = LARGEST_EXTENT[dtype.itemsize]
    if size > largest or 0 < size < 1 / largest:
        precise = ""
        if dtype.itemsize < 8:
            precise = ", or pass it in float64"
        raise ValueError(  # StandardScaler cannot: its squares leave the range too
            f"{name} spreads over {size:.1e}, and its squared distances leave the range of "
            f"{dtype}; rescale it (columns by TableEncoder, or divide it by {size:.1e}){precise}."
        )


def check_tensor(X: Any, min_samples: int) -> Any:
    """A tensor of points, validated as scikit-learn would validate an array."""
    import torch

    if X.layout != torch.strided or X.is_complex():
        raise TypeError(
            f"X is a tensor of layout {X.layout} and {X.dtype}; pass a dense, real one "
            "(X.to_dense(), X.real)."
        )
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D tensor X instead; reshape it.")
    n, D = X.shape
    if n < min_samples or D == 0:
        raise ValueError(
            f"X has {n} sample(s) and {D} feature(s); it needs at least {min_samples} and 1."
        )
    if not X.is_floating_point():
        X = X.double()
    elif X.element_size() < 4:
        X = X.float()
    if not bool(X.isfinite().all()):
        raise ValueError("X contains NaN or infinity; drop those rows or impute them first.")
    return X.detach()


def refuse_dask(estimator: Any, X: Any, name: str = "X") -> None:
    """Refuse a dask collection in an estimator that works in memory."""
    if is_dask(X):
        raise TypeError(
            f"{type(estimator).__name__} works in memory, and {name} is a {type(X).__module__} "
            f"collection; pass {name}.compute() or a sample of its rows, or use FrobMetric, "
            "LMNNEig, DMLEig or BoostMetric, which learn from dask collections."
        )


def ascending(name: str, values: Any, below: float = np.inf) -> np.ndarray:
    """The numbers of a path of fits, sorted; refuses what is not between 0 and ``below``."""
    try:
        found = np.sort(np.atleast_1d(np.asarray(values, dtype=np.float64)))
    except OverflowError:
        raise ValueError(f"{name} has a number out of the range of float64; lower it.") from None
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.ndim != 1 or len(found) == 0 or not np.all((found > 0) & (found < below)):
        what = "positive numbers"
        if below < np.inf:
            what = f"numbers strictly between 0 and {below:g}"
        raise ValueError(f"{name}={values!r} must hold one or more {what}.")
    return found
