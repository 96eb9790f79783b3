"""A fitted `MetricClassifier` or `MetricRegressor` in one file: safetensors with a checked JSON
header, as for metrics.

The file holds the estimator's own ``state()``: the training rows that decide, the encoding or scaling
and the maps, the fitted rules and the held-out scores. The fitted metric and the rules that were
tried and not chosen are left out.
"""

import os
from typing import Any

import numpy as np

from ..core.fields import Array, Each, Field, Plain, Text, check, expect
from ..decisions.base import MetricDecision
from ..decisions.classifier import MetricClassifier
from ..decisions.regressor import MetricRegressor
from .checked import fields_of_file, read_state, write_state
from .files import encoder_of_words
from .states import number_from_value

FORMAT = 2  # from which on the file holds the state of an estimator
ESTIMATORS: dict[str, type[MetricDecision]] = {
    each.__name__: each for each in (MetricClassifier, MetricRegressor)
}
FIELDS = {"estimator": Text(tuple(ESTIMATORS)), "decision": Field(), "notes": Plain(dict)}


def save_decision(
    path: str | os.PathLike[str],
    estimator: MetricClassifier | MetricRegressor,
    *,
    notes: dict[str, Any] | None = None,
) -> None:
    """Write a fitted classifier or regressor to one safetensors file, atomically.

    Parameters
    ----------
    path : str or path
    estimator : fitted MetricClassifier or MetricRegressor
    notes : dict, default=None
        Further JSON values to keep; `load_decision` gives them as ``notes_``.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import MetricClassifier, load_decision, save_decision
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = MetricClassifier(metric=None, random_state=0).fit(X, y)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "iris.safetensors")
    >>> save_decision(path, classifier)
    >>> bool((load_decision(path).predict_proba(X) == classifier.predict_proba(X)).all())
    True
    >>> folder.cleanup()
    """
    name = next((name for name, each in ESTIMATORS.items() if isinstance(estimator, each)), None)
    if name is None:
        raise TypeError(
            f"estimator is a {type(estimator).__name__}; give a fitted MetricClassifier or "
            "MetricRegressor, and save metrics with save_metric."
        )
    if not isinstance(notes, dict | None):
        raise TypeError(f"notes is a {type(notes).__name__}; give a dict of JSON values.")
    kept = getattr(estimator, "notes_", {}) if notes is None else notes
    state = estimator.state()
    with fields_of_file(path):
        type(estimator).from_state(state)  # an error now rather than at loading
    write_state(path, "decision", FORMAT, {"estimator": name, "decision": state, "notes": kept})


def load_decision(path: str | os.PathLike[str]) -> MetricClassifier | MetricRegressor:
    """Read a classifier or regressor written by `save_decision`, after checking the whole file.

    It predicts exactly as the saved one did and needs no training data. Parameters that are not
    plain values, such as an estimator given as ``metric``, have their defaults.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    MetricClassifier or MetricRegressor

    Raises
    ------
    MetricFileError
        If the file is not a decision file, is damaged, or has a newer format.
    """
    state = read_state(path, "decision", FORMAT, _upgraded)
    with fields_of_file(path):
        check(state, FIELDS)
        estimator = ESTIMATORS[state["estimator"]].from_state(state["decision"])
    estimator.notes_ = state["notes"]
    return estimator


# ---- files of format 1: one metric and one rule, words and gaps of a table in the notes

NUMBERS = {
    "MetricClassifier": {"temperature_": "temperature"},
    "MetricRegressor": {"_y_mean": "y_mean", "_y_scale": "y_scale"},
}
LABEL_CODES = ("<U", "|O", "|b", "|i", "|u", "<i", "<u", "<f")  # how their dtypes start
KEPT = {name: Field() for name in ("X", "Y", "weights", "rows", "keys", "held_out")}
ARRAYS = KEPT | {
    "components": Array("f", ("rank", "d")),
    "centre": Array("f", ("d",)),
    "spread": Array("f", ("d",)),
    **{name: Field() for name in ("Z", "scores")},
}
HEADER = {
    "estimator": Text(tuple(ESTIMATORS)),
    "rule": Plain(dict),
    "numbers": Plain(dict),
    "notes": Plain(dict),
    "feature_names": Each(Text(), optional=True),
}
HEADER |= dict.fromkeys(("format", "kind", "parameters", "metric", "loss", "scale"), Field())
HEADER |= dict.fromkeys(("classes", "landmarks", "certificate", "evidence", "fortran"), Field())


def _upgraded(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The state of a file of format 1."""
    check(header, HEADER, "header")
    name, rule, certificate = header["estimator"], header["rule"], header["certificate"]
    kernel = "kernel" in rule
    solved = ("coefficients", "offset") if kernel else ()
    check(arrays, ARRAYS | dict.fromkeys(solved, Field()), "arrays")
    check(header["numbers"], dict.fromkeys(NUMBERS[name], Field()), "numbers")
    if isinstance(certificate, dict):
        certificate = {key: number_from_value(value) for key, value in certificate.items()}
    fitted = {key: arrays[key] for key in solved}
    fitted |= {"landmarks": header["landmarks"], "scale": header["scale"]}
    own = {new: header["numbers"][old] for old, new in NUMBERS[name].items()}
    if name == "MetricClassifier":
        own |= {"classes": _classes(header["classes"]), "unseen": 0.0}
    names, encoder, shift = header["feature_names"], None, np.zeros(1)
    notes = {"feature_names": names, "categories": None, "fill": None} | header["notes"]
    if notes["categories"] is not None or notes["fill"] is not None:
        encoder, shift = encoder_of_words(
            notes["feature_names"], notes["categories"] or {}, notes["fill"], len(arrays["centre"])
        )
        names = encoder["names"]
    decision = {
        "parameters": header["parameters"],
        "encoder": encoder,
        "feature_names": names,
        **{each: arrays[each] for each in KEPT},
        "centre": arrays["centre"] - shift,
        "scale": arrays["spread"],
        "parts": [
            {
                "metric": header["metric"],
                "rule": "kernel" if kernel else "neighbors",
                "setting": rule,
                "loss": number_from_value(header["loss"]),
                "weight": 1.0,
                "map": _map(arrays["components"], arrays["spread"]),
                "places": np.arange(len(arrays["rows"])),
                "fitted": fitted | {"certificate": certificate} if kernel else {},
            }
        ],
        "certificate": None,
        "evidence": header["evidence"],
        **own,
    }
    return {"estimator": name, "decision": decision, "notes": header["notes"]}


def _map(components, spread):
    """The map of scaled rows; None for the identity."""
    L = np.ascontiguousarray((components * spread).T)
    same = L.shape[0] == L.shape[1] and np.allclose(L, np.eye(len(L)), rtol=0, atol=1e-6)
    return None if same else L


def _classes(classes):
    """Labels with the name of their dtype in place of its code."""
    check(classes, {"dtype": Text(), "values": Field()}, "classes")
    dtype = classes["dtype"]
    expect(dtype[:2] in LABEL_CODES, "classes.dtype", dtype, "one of a label")
    text = {"<U": "str", "|O": "object"}.get(dtype[:2])
    return {"dtype": text or np.dtype(dtype).name, "values": classes["values"]}
