"""A fitted `MetricClassifier` or `MetricRegressor` in one file: safetensors with a checked JSON
header, as for metrics.

The file holds what predictions, probabilities, sets or intervals and explanations need: the
training rows that decide, the scaling and the map, and the held-out scores. The fitted metric
and the rules that were tried and not chosen are left out.
"""

import os
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import to_numpy
from ..decisions.base import LEARNED, PLAIN, MetricDecision
from ..decisions.classifier import DecisionEvidence, MetricClassifier
from ..decisions.held_out import VOTE_WEIGHTS, NeighborVote, Trial
from ..decisions.regressor import MetricRegressor, RegressionEvidence
from ..solvers.kernel_ridge import KERNELS, KernelSetting, KernelSum
from .checked import MetricFileError, are_strings, check_header, read_checked, write_checked
from .values import certificate_from_values, certificate_values, json_value

__all__ = ["load_decision", "save_decision"]

FORMAT = 1
EVIDENCE = {MetricClassifier: DecisionEvidence, MetricRegressor: RegressionEvidence}
ESTIMATORS = {kind.__name__: kind for kind in EVIDENCE}
NUMBERS = {"MetricClassifier": ("temperature_",), "MetricRegressor": ("_y_mean", "_y_scale")}
CLASS_KINDS = "biufUO"  # of NumPy's kinds of dtype: booleans, integers, floats, text
KEYS = {"format", "kind", "estimator", "parameters", "rule", "metric", "loss", "scale", "classes"}
KEYS |= {"landmarks", "numbers", "certificate", "evidence", "feature_names", "fortran", "notes"}
# arrays of a file, and the attributes of an estimator that hold them
ARRAYS = {"rows": "_given", "X": "_X", "Z": "_Z", "Y": "_Y", "weights": "_weights", "keys": "_keys"}
ARRAYS |= {"centre": "_centre", "spread": "scale_", "components": "components_"}
ARRAYS |= {"held_out": "_held_out"}
OF_EVERY_ROW = ("rows", "Y", "weights", "keys")  # of which a file holds the rows that decide
WHOLE = {"rows": ("I64",), "keys": ("U64",)}  # types of the arrays that are not floats


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
    if not isinstance(estimator, tuple(EVIDENCE)):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}; give a fitted MetricClassifier or "
            "MetricRegressor, and save metrics with save_metric."
        )
    check_is_fitted(estimator)
    if not isinstance(notes, dict | None):
        raise TypeError(f"notes is a {type(notes).__name__}; give a dict of JSON values.")
    arrays = _arrays(estimator)
    header = _header(
        estimator, arrays, getattr(estimator, "notes_", {}) if notes is None else notes
    )
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_checked(path, header, arrays, _check)


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
    header, arrays = read_checked(path, "decision", _check, WHOLE)
    try:
        return _restored(header, arrays, path)
    except MetricFileError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
        raise MetricFileError(f"'{path}' holds values that do not fit: {error}.") from error


# ---- what a file holds


def _arrays(estimator: MetricDecision) -> dict[str, np.ndarray]:
    kept, model = estimator._kept, estimator._model
    arrays = {name: getattr(estimator, attribute) for name, attribute in ARRAYS.items()}
    arrays |= {name: arrays[name][kept] for name in OF_EVERY_ROW}
    arrays["scores"] = estimator.chosen_.scores
    if model is not None:
        arrays |= {"Z": model.points, "coefficients": model.coefficients, "offset": model.offset}
    return {name: to_numpy(array) for name, array in arrays.items()}


def _header(estimator, arrays, notes):
    name = next(name for name, kind in ESTIMATORS.items() if isinstance(estimator, kind))
    classes = getattr(estimator, "classes_", None)
    names, chosen = getattr(estimator, "feature_names_in_", None), estimator.chosen_
    plain = (str, int, float, bool, type(None))
    return {
        "format": FORMAT,
        "kind": "decision",
        "estimator": name,
        "parameters": {
            key: value
            for key, value in estimator.get_params(deep=False).items()
            if isinstance(value, plain)
        },
        "rule": asdict(chosen.rule),
        "metric": chosen.metric,
        "loss": json_value(chosen.loss),
        "scale": None if estimator._model is None else estimator._model.scale,
        "landmarks": estimator._model is not None and estimator._model.landmarks,
        "classes": None
        if classes is None
        else {"dtype": classes.dtype.str, "values": classes.tolist()},
        "numbers": {each: getattr(estimator, each) for each in NUMBERS[name]},
        "certificate": certificate_values(estimator.certificate_),
        "evidence": None if estimator.evidence_ is None else asdict(estimator.evidence_),
        "feature_names": None if names is None else list(names),
        # the order of an array in memory decides the last bits of a matrix product
        "fortran": [each for each, array in arrays.items() if not array.flags.c_contiguous],
        "notes": notes,
    }


def _restored(header, arrays, path):
    kind = ESTIMATORS[header["estimator"]]
    estimator = kind(**header["parameters"])
    arrays = {
        name: np.array(array, order="F" if name in header["fortran"] else "C")
        for name, array in arrays.items()
    }
    rule: Any = (KernelSetting if "kernel" in header["rule"] else NeighborVote)(**header["rule"])
    evidence = header["evidence"]
    values = {
        **{attribute: arrays[name] for name, attribute in ARRAYS.items()},
        **{name: float(header["numbers"][name]) for name in NUMBERS[header["estimator"]]},
        "n_features_in_": arrays["X"].shape[1],
        "chosen_": Trial(header["metric"], rule, arrays["scores"], float(header["loss"])),
        "certificate_": certificate_from_values(header["certificate"]),
        "evidence_": None if evidence is None else EVIDENCE[kind](**evidence),
        "metric_": None,
        "trials_": [],
        "notes_": header["notes"],
        "_rule": rule,
        "_model": None,
        "_kept": np.arange(len(arrays["rows"])),
    }
    if "coefficients" in arrays:
        values["_model"] = KernelSum(
            rule,
            arrays["Z"],
            float(header["scale"]),
            arrays["coefficients"],
            arrays["offset"],
            bool(header["landmarks"]),
        )
    if header["classes"] is not None:
        values["classes_"] = _classes(header["classes"])
    if header["feature_names"] is not None:
        values["feature_names_in_"] = np.array(header["feature_names"], object)
    for name, value in values.items():
        setattr(estimator, name, value)
    str(estimator.evidence_)  # an error unless it can be read
    return estimator


def _classes(values):
    dtype = np.dtype(values["dtype"])
    if dtype.kind not in CLASS_KINDS:
        raise ValueError(f"classes of dtype {dtype}")
    return np.array(values["values"], dtype)


# ---- checking


def _check(header, shapes, path):
    """Refuse a header of another format, or one that does not match the arrays."""
    fits = check_header(header, FORMAT, {}, KEYS, path)
    name, classes, rule = header["estimator"], header["classes"], header["rule"]
    fits(name in list(ESTIMATORS), f"the estimator is {str(name)[:80]}")
    for each in ("numbers", "rule"):
        fits(isinstance(header[each], dict), f"{each} is not an object")
    fits(header["metric"] in (PLAIN, LEARNED), "metric is neither plain nor learned")
    kernel = "kernel" in rule
    fits(
        rule["kernel"] in list(KERNELS) if kernel else rule.get("weights") in VOTE_WEIGHTS,
        f"the rule is {str(rule)[:80]}",
    )
    fits(are_strings(header["fortran"]), "fortran is not a list of strings")
    fits(isinstance(header["landmarks"], bool), "landmarks is neither true nor false")
    if name == "MetricClassifier":
        listed = isinstance(classes, dict) and isinstance(classes.get("values"), list)
        fits(listed and len(classes["values"]) >= 2, "classes are not listed")
    fits((classes is None) == (name == "MetricRegressor"), "classes and estimator differ")
    m, d = _pair(shapes, "X")
    r, t = _pair(shapes, "components")[0], 1 if classes is None else len(classes["values"])
    h = shapes.get("held_out", (0,))[:1]
    expected = {
        **{"rows": (m,), "weights": (m,), "keys": (m,), "X": (m, d), "Z": (m, r), "Y": (m, t)},
        **{"centre": (d,), "spread": (d,), "components": (r, d), "held_out": h, "scores": (*h, t)},
        **({"coefficients": (m, t), "offset": (t,)} if kernel else {}),
    }
    fits(m > 0 and d > 0 and shapes == expected, f"the arrays are {str(shapes)[:300]}")
    names = header["feature_names"]
    fits(names is None or (are_strings(names) and len(names) == d), "feature_names differ from X")


def _pair(shapes, name):
    """The shape of a matrix; zeros if there is none."""
    shape = shapes.get(name, ())
    return shape if len(shape) == 2 else (0, 0)
