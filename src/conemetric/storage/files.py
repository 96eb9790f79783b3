"""A learned metric in one file: safetensors with a checked JSON header. Loading a file
never executes anything in it.

The file holds one affine map, x -> components x + offset, with scaler and PCA folded in,
the values that replace missing ones, and the categories of columns of text: loading it
needs neither the estimator nor the preprocessing. The header records the method, its
parameters, the certificate, the feature names, the threshold of pairs with its promise, and
the weights of the scores that a ranking adds up.
A checksum over header and arrays turns every flipped bit into an error, and a file appears
under its name only once complete.
"""

import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..evaluation.thresholds import ThresholdPromise
from ..problems.base import Bounds
from ..ranking.columns import EMBEDDING, NORMALIZATIONS
from ..ranking.top_k import SIMILARITIES
from ..solvers.base import Certificate, Status
from .checked import (
    MetricFileError,
    are_strings,
    check_format,
    parse,
    read_checked,
    require,
    write_checked,
)
from .learned import LearnedMetric, certificate_values, json_value, source_columns

__all__ = ["MetricFileError", "load_metric", "save_metric"]

FORMAT = 4
MAX_METHOD = 200  # characters
LARGEST = 1e150  # its square is still finite
ROUNDING = 1e-6  # a feasible point's relative gap is at least minus this
SAME = 1e-9  # relative difference of gaps up to rounding
ATTRIBUTES = (
    *("method", "parameters", "feature_names", "preprocessing", "categories", "notes"),
    "scores",
)
BOUNDS = ("primal", "dual", "gap", "relative_gap", "violation")


def save_metric(
    path: str | os.PathLike[str],
    estimator: Any,
    *,
    feature_names: Sequence[str] | None = None,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a learned metric to one safetensors file, atomically.

    Parameters
    ----------
    path : str or path
    estimator : fitted estimator, Pipeline that ends in one, or LearnedMetric
    feature_names : sequence of str, default=None
        Names of the columns; by default those that the estimator knows, if any.
    notes : dict, default=None
        Further JSON values to keep; by default those of a `LearnedMetric`.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric, load_metric, save_metric
    >>> X, y = load_iris(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "iris.safetensors")
    >>> save_metric(path, FrobMetric().fit(X, y))
    >>> metric = load_metric(path)
    >>> metric.method, metric.transform(X).shape[0], metric.certificate.status.value
    ('FrobMetric', 150, 'converged')
    >>> folder.cleanup()
    """
    metric = LearnedMetric.from_estimator(estimator, feature_names=feature_names, notes=notes)
    arrays = {
        name: np.ascontiguousarray(getattr(metric, name), np.float64)
        for name in ("components", "offset", "fill")
        if getattr(metric, name) is not None
    }
    header = json.dumps(
        {
            "format": FORMAT,
            "shape": list(metric.components.shape),
            "certificate": certificate_values(metric.certificate),
            "threshold": json_value(getattr(metric, "threshold_", None)),
            "threshold_promise": None
            if metric.threshold_promise_ is None
            else asdict(metric.threshold_promise_),
            **{name: getattr(metric, name) for name in ATTRIBUTES},
            "parameters": metric.parameters or {},
            "preprocessing": list(metric.preprocessing),
            "notes": metric.notes or {},
        },
        allow_nan=False,
    )
    _check(parse(header, path), {name: array.shape for name, array in arrays.items()}, path)
    check_values(arrays, path)
    write_checked(path, header, arrays)


def load_metric(path: str | os.PathLike[str]) -> LearnedMetric:
    """Read a metric written by `save_metric`, after checking the whole file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LearnedMetric

    Raises
    ------
    MetricFileError
        If the file is not a metric file, is damaged, or has a newer format.
    """
    header, arrays = read_checked(path, "metric", _check_stored)
    check_values(arrays, path)
    certificate = certificate_from(header["certificate"], path)
    metric = LearnedMetric(
        **arrays, certificate=certificate, **{name: header[name] for name in ATTRIBUTES}
    )
    if header["threshold"] is not None:
        metric.set_threshold(header["threshold"])
        metric.threshold_promise_ = _promise(header["threshold_promise"], path)
    return metric


# ---- checking


def _check_stored(header, shapes, dtypes, path):
    _check(header, shapes, path)
    require(set(dtypes.values()) == {"F64"}, path, "does not hold float64 arrays")


def _check(header, shapes, path):
    """Refuse a header of another format, or one that does not match the arrays."""
    fits = check_format(header, FORMAT, path)
    version = header["format"]
    if version == 1:  # had neither categories nor fill values
        header.setdefault("categories", None)
    if version <= 2:  # had no threshold
        header.update(threshold=None, threshold_promise=None)
    if version <= 3:  # had no weights of scores
        header.update(scores=None)
    keys = {"format", "shape", "certificate", "threshold", "threshold_promise", *ATTRIBUTES}
    fits(set(header) == keys, f"the keys are {sorted(map(str, header))[:12]}")
    shape = header["shape"]
    fits(
        isinstance(shape, list)
        and [type(size) for size in shape] == [int, int]
        and 1 <= shape[0] <= shape[1],
        f"shape is {str(shape)[:80]}",
    )
    expected = {"components": tuple(shape), "offset": (shape[0],)}
    if "fill" in shapes:
        expected["fill"] = (shape[1],)
    fits(shapes == expected, f"the arrays are {str(shapes)[:200]}, shape is {shape}")
    method, names, categories = header["method"], header["feature_names"], header["categories"]
    fits(isinstance(method, str) and 0 < len(method) < MAX_METHOD, "method is not a name")
    fits(are_strings(header["preprocessing"]), "preprocessing is not a list of strings")
    fits(names is None or are_strings(names), "feature_names are not strings")
    fits(
        names is None or len(names) == shape[1],
        f"{len(names or ())} feature names for {shape[1]} features",
    )
    if categories is not None:
        _check_categories(fits, names, categories)
    for name in ("parameters", "notes"):
        fits(isinstance(header[name], dict), f"{name} is not an object")
    scores = header["scores"]
    fits(scores is None or _is_sum(scores), f"scores are {str(scores)[:200]}")
    certificate = header["certificate"]
    fits(certificate is None or isinstance(certificate, dict), "certificate is not an object")
    threshold, promise = header["threshold"], header["threshold_promise"]
    fits(threshold is None or _is_number(threshold), "threshold is not a number")
    fits(
        promise is None or (isinstance(promise, dict) and threshold is not None),
        "threshold_promise is not an object beside a threshold",
    )


def _check_categories(fits, names, categories):
    fits(
        names is not None
        and isinstance(categories, dict)
        and all(map(are_strings, categories.values())),
        "categories are not lists of strings of named columns",
    )
    columns = source_columns(names, categories)
    features = []
    for column in columns:
        expanded = [f"{column}={category}" for category in categories.get(column, ())]
        features += expanded if column in categories else [column]
    fits(
        set(categories) <= set(columns) and features == names,
        "categories differ from feature_names",
    )


def check_values(arrays: dict[str, np.ndarray], path: Any) -> None:
    """Refuse numbers that distances cannot be computed with."""
    for name, array in arrays.items():
        require(np.isfinite(array).all(), path, f"cannot be used: {name} contains NaN or infinity")
        require(
            float(abs(array).max(initial=0)) <= LARGEST,
            path,
            f"holds {name} larger than distances can be computed with",
        )


def certificate_from(values: dict[str, Any] | None, path: Any) -> Certificate | None:
    """The certificate of a header; an error if it is malformed or no fit can have given it."""
    if values is None:
        return None

    def holds(condition, fault):
        require(condition, path, f"has a certificate that cannot be {fault}")

    holds(set(values) == {*BOUNDS, "status"}, f"read: its fields are {sorted(values)[:12]}")
    status = values["status"]
    holds(status in list(Status), f"read: status is {str(status)[:80]}")
    for name in BOUNDS:
        holds(_is_number(values[name]), f"read: {name} is {str(values[name])[:80]}")
    primal, dual, gap, relative_gap, violation = (float(values[name]) for name in BOUNDS)
    certificate = Certificate.from_bounds(Bounds(primal, dual, violation), Status(status))
    holds(
        violation >= 0 and math.isclose(gap, certificate.gap, rel_tol=SAME),
        f"true: primal {primal}, dual {dual}, gap {gap}, violation {violation}",
    )
    holds(
        math.isclose(relative_gap, certificate.relative_gap, rel_tol=SAME),
        f"true: the relative gap is {certificate.relative_gap}, not {relative_gap}",
    )
    holds(
        violation != 0 or relative_gap >= -ROUNDING,
        f"true: the objective {primal} is below the bound {dual}",
    )
    return certificate


def _promise(values, path):
    """The promise of a threshold; an error if it is malformed or no pairs can have given it."""
    if values is None:
        return None
    try:
        return ThresholdPromise(**values)
    except (TypeError, ValueError, OverflowError) as error:
        raise MetricFileError(f"'{path}' has a promise that cannot be true: {error}") from error


def _is_sum(scores):
    """Whether these are weights, a normalisation and a similarity that `rank` can use."""
    if not isinstance(scores, dict) or set(scores) != {"weights", "normalization", "similarity"}:
        return False
    weights, normalization = scores["weights"], scores["normalization"]
    return (
        isinstance(weights, dict)
        and EMBEDDING in weights
        and all(
            isinstance(weight, (int, float)) and 0 <= weight <= LARGEST
            for weight in weights.values()
        )
        and normalization in (None, *NORMALIZATIONS)
        and (normalization is not None or not any(weights[c] for c in weights if c != EMBEDDING))
        and scores["similarity"] in SIMILARITIES
    )


def _is_number(value):
    """Whether a JSON value is a float; infinities and NaN are written as strings."""
    if isinstance(value, str):
        return value in ("inf", "-inf", "nan")
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
