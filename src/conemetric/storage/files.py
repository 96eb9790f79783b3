"""A learned metric in one file: safetensors with a checked JSON header. Loading a file
never executes anything in it.

The file holds one affine map, x -> components x + offset, with scaler and PCA folded in,
and the encoding of a table before it: loading it needs neither the estimator nor the
preprocessing. The header records the method, its
parameters, the certificate, the feature names, the threshold of pairs with its promise, and
the weights of the scores that a ranking adds up.
A checksum over header and arrays turns every flipped bit into an error, and a file appears
under its name only once complete.
"""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.fields import expect
from .checked import MetricFileError, fields_of_file, read_state, write_state
from .learned import LearnedMap
from .values import certificate_from_values, number_from_value

__all__ = ["MetricFileError", "load_metric", "save_metric"]

FORMAT = 5  # from which on the file holds the state of a `LearnedMap`
# keys of older formats, and those that they lack, by the format that added them
KEYS = {"format", "shape", "certificate", "threshold", "threshold_promise", "method", "parameters"}
KEYS |= {"feature_names", "preprocessing", "categories", "notes", "scores"}
ADDED = {"categories": 2, "threshold": 3, "threshold_promise": 3, "scores": 4}


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
        return LearnedMap.from_state(state)


def _upgraded(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The state of a `LearnedMap` from a file of format 1 to 4."""
    header |= {key: None for key, since in ADDED.items() if header["format"] < since}
    expect(set(header) == KEYS, "the header", sorted(header)[:20], f"the keys {sorted(KEYS)}")
    known = {"components", "offset", "fill"}
    expect(set(arrays) <= known, "the arrays", sorted(arrays), f"some of {sorted(known)}")
    shape = list(arrays["components"].shape) if "components" in arrays else None
    expect(header["shape"] == shape, "the shape in the header", header["shape"], f"{shape}")
    certificate = certificate_from_values(header["certificate"])
    if isinstance(header["scores"], dict):
        header["scores"] |= {"target": None, "window": None}
    return {
        **{key: header[key] for key in KEYS - {"format", "shape"}},
        **dict.fromkeys(known),
        **arrays,
        "encoder": None,
        "document_components": None,
        "maps": "queries" if header["method"] == "QueryAdapter" else "rows",
        "certificate": certificate and certificate.state(),
        "threshold": number_from_value(header["threshold"]),
    }
