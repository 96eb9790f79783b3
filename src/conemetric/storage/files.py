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

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..evaluation.thresholds import ThresholdPromise
from ..ranking.model import RankingModel
from .checked import (
    MetricFileError,
    are_strings,
    check_header,
    read_checked,
    write_checked,
)
from .frames import source_columns
from .learned import LearnedAdapter, LearnedMap, LearnedMetric
from .values import certificate_from, certificate_values, is_number, json_value

__all__ = ["MetricFileError", "load_metric", "save_metric"]

FORMAT = 5
# keys that older formats do not have, by the format that added them
TARGETED = ("target", "window")  # of scores learned for a search engine
ADDED = {"categories": 2, "threshold": 3, "threshold_promise": 3, "scores": 4, "maps": 5}
MAX_METHOD = 200  # characters
# and their type in a file
ARRAYS = dict.fromkeys(("components", "offset", "fill", "document_components"), ("F64",))
KINDS = {"rows": LearnedMetric, "queries": LearnedAdapter}  # by what they map
ATTRIBUTES = (
    *("method", "parameters", "feature_names", "preprocessing", "categories", "notes"),
    "scores",
)
KEYS = {"format", "maps", "shape", "certificate", "threshold", "threshold_promise", *ATTRIBUTES}


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
    estimator : fitted estimator, Pipeline that ends in one, LearnedMetric or LearnedAdapter
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
    metric = LearnedMap.from_estimator(estimator, feature_names=feature_names, notes=notes)
    arrays = {
        name: np.ascontiguousarray(getattr(metric, name), np.float64)
        for name in ARRAYS
        if getattr(metric, name) is not None
    }
    promise = getattr(metric, "threshold_promise_", None)
    header = {
        "format": FORMAT,
        "maps": next(maps for maps, kind in KINDS.items() if isinstance(metric, kind)),
        "shape": list(metric.components.shape),
        "certificate": certificate_values(metric.certificate),
        "threshold": json_value(getattr(metric, "threshold_", None)),
        "threshold_promise": None if promise is None else asdict(promise),
        **{name: getattr(metric, name) for name in ATTRIBUTES},
        "parameters": metric.parameters or {},
        "preprocessing": list(metric.preprocessing),
        "notes": metric.notes or {},
    }
    write_checked(path, header, arrays, _check)


def load_metric(path: str | os.PathLike[str]) -> Any:
    """Read a metric written by `save_metric`, after checking the whole file.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LearnedMetric, or LearnedAdapter of a `QueryAdapter`

    Raises
    ------
    MetricFileError
        If the file is not a metric file, is damaged, or has a newer format.
    """
    header, arrays = read_checked(path, "metric", _check, ARRAYS)
    certificate = certificate_from(header["certificate"], path)
    metric = KINDS[header["maps"]](
        **arrays, certificate=certificate, **{name: header[name] for name in ATTRIBUTES}
    )
    if header["threshold"] is not None:
        metric.set_threshold(header["threshold"])
        metric.threshold_promise_ = _promise(header["threshold_promise"], path)
    return metric


# ---- checking


def _check(header, shapes, path):
    """Refuse a header of another format, or one that does not match the arrays."""
    fits = check_header(header, FORMAT, ADDED, KEYS, path)
    if header["format"] < ADDED["maps"]:  # which told the kinds apart by the name
        header["maps"] = "queries" if header["method"] == "QueryAdapter" else "rows"
    shape, maps = header["shape"], header["maps"]
    fits(isinstance(maps, str) and maps in KINDS, f"it maps {str(maps)[:80]}")
    fits(
        isinstance(shape, list)
        and [type(size) for size in shape] == [int, int]
        and 1 <= shape[0] <= shape[1],
        f"shape is {str(shape)[:80]}",
    )
    expected = {"components": tuple(shape), "offset": (shape[0],)}
    if "document_components" in shapes and maps == "queries":
        expected["document_components"] = tuple(shape)
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
    scores = header["scores"]
    fits(scores is None or _is_sum(scores), f"scores are {str(scores)[:200]}")
    threshold, promise = header["threshold"], header["threshold_promise"]
    fits(threshold is None or is_number(threshold), "threshold is not a number")
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
    required = {"weights", "normalization", "similarity"}
    if not isinstance(scores, dict) or not required <= set(scores) <= {*required, *TARGETED}:
        return False
    try:
        RankingModel.from_state({"query_map": None, "document_map": None, **scores})
    except ValueError:
        return False
    return True
