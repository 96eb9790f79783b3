"""A learned metric in one file: safetensors with a checked JSON header. Loading a file
never executes anything in it.

The file holds one affine map, x -> components x + offset, with scaler and PCA folded in, and the
encoding of a table before it: loading it needs neither the estimator nor the preprocessing. The
header records the method, its parameters, the certificate, the feature names, the threshold of
pairs with its promise, and the weights of the scores that a ranking adds up.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.fields import Each, Field, Named, Number, Text, check, expect
from ..tables.kinds import IndicatorColumn, Kind, NumberColumn
from .checked import fields_of_file, read_state, write_state
from .learned import FIELDS, LearnedMap
from .states import number_from_value

FORMAT = 5  # from which on the file holds the state of a `LearnedMap`
# of older formats: keys, those that they lack by the format that added them, and arrays
KEYS = {"format", "shape", "certificate", "method", "parameters", "feature_names", "preprocessing"}
KEYS |= {"notes", "categories", "threshold", "threshold_promise", "scores"}
ARRAYS = ("components", "offset", "fill")
ADDED = {"categories": 2, "threshold": 3, "threshold_promise": 3, "scores": 4}
WORD_FIELDS = {
    "feature_names": Each(Text(), "features"),
    "categories": Named(Each(Text(), least=1, distinct=True)),
    "fill": Each(Number(), "features", optional=True),
}


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
    with fields_of_file(path):
        LearnedMap.from_state(metric.state())  # an error now rather than at loading
    write_state(path, "metric", FORMAT, metric.state())


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
    state = read_state(path, "metric", FORMAT, _upgraded)
    with fields_of_file(path):
        return LearnedMap.from_state(_without_categories(state))


# ---- older formats


def _upgraded(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The state of a file of format 1 to 4."""
    header |= {key: None for key, since in ADDED.items() if header["format"] < since}
    check(header, dict.fromkeys(KEYS, Field()), "header")
    check({"fill": None, **arrays}, dict.fromkeys(ARRAYS, Field()))
    shape = list(arrays["components"].shape)
    expect(header["shape"] == shape, "header.shape", header["shape"], f"{shape}")
    certificate = header["certificate"]
    if isinstance(certificate, dict):
        certificate = {key: number_from_value(value) for key, value in certificate.items()}
    if isinstance(header["scores"], dict):
        header["scores"] |= {"target": None, "window": None}
    return {
        **{key: header[key] for key in KEYS - {"format", "shape"}},
        "fill": None,
        **arrays,
        "encoder": None,
        "document_components": None,
        "maps": "queries" if header["method"] == "QueryAdapter" else "rows",
        "certificate": certificate,
        "threshold": number_from_value(header["threshold"]),
    }


def _without_categories(state: Any) -> Any:
    """The state with an encoder in place of the categories that files before it had."""
    categories = state.pop("categories", None) if isinstance(state, dict) else None
    if categories is None:
        return state
    n_features = check(state, FIELDS)["features"]
    fill = None if state["fill"] is None else state["fill"].tolist()
    encoder, shift = encoder_of_words(state["feature_names"], categories, fill, n_features)
    offset = state["offset"] + state["components"] @ shift
    return {**state, "encoder": encoder, "fill": None, "offset": offset}


def encoder_of_words(
    names: Any, categories: Any, fill: Any, n_features: int
) -> tuple[dict[str, Any], np.ndarray]:
    """The state of a `TableEncoder` with these features: numbers, and words as ``column=word``, 1
    where the column holds it and else 0. It takes the values that ``fill`` gaps from numbers; these
    are the array returned.
    """
    values = {"feature_names": names, "categories": categories, "fill": fill}
    check(values, WORD_FIELDS, sizes={"features": n_features})
    column_of = {f"{column}={word}": column for column in categories for word in categories[column]}
    expect(column_of.keys() <= set(names), "categories", categories, "those of feature_names")
    shift = np.where([name in column_of for name in names], 0.0, fill or 0.0)
    kinds: dict[str, Kind] = {}
    for name, mean in zip(names, shift, strict=True):
        column = column_of.get(name)
        if column is None:
            unit = np.ones(1), np.zeros(1, np.int64)
            kinds[name] = NumberColumn(name, np.array([mean]), *unit, missing=None)
        else:
            kinds[column] = IndicatorColumn(column, categories[column])
    return {
        "columns": [kind.state() for kind in kinds.values()],
        "ignored": {},
        "names": list(kinds),
        "named": True,
        "parameters": {"missing": "center" if fill else "error", "sparse_output": False},
    }, shift
