"""What a file keeps of a fitted classifier or regressor, and how it comes back.

That is what predictions, promises and explanations need. Left out are the fitted metric, the settings that
were tried and not chosen, and parameters that are not plain values.
"""

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..core import arrays, fields
from ..engine.certificate import Certificate
from ..tables.encoder import TableEncoder
from .parts import Part
from .preparation import Preparation
from .rule import KeptRows, Training

if TYPE_CHECKING:
    from .base import MetricDecision

D = TypeVar("D", bound="MetricDecision")

PLAIN_VALUES = str | int | float | bool | None  # of parameters
WEIGHTS_ATOL = 1e-6  # by which the weights of the parts may miss a sum of 1, by rounding
FIELDS: dict[str, fields.Field] = {
    "parameters": fields.Plain(dict),
    "encoder": fields.Field(optional=True),
    "feature_names": fields.Each(fields.Text(), distinct=True, optional=True),
    "rows": fields.ArrayField("i", ("m",), low=0, increasing=True),
    "X": fields.ArrayField("f", ("m", "d")),
    "Y": fields.ArrayField("f", ("m", "t")),
    "weights": fields.ArrayField("f", ("m",), low=0, strict=True),
    "keys": fields.ArrayField("u", ("m",), high=np.inf),
    "centre": fields.ArrayField("f", ("d",)),
    "scale": fields.ArrayField("f", ("d",), low=0, strict=True),
    "held_out": fields.ArrayField("f", ("h",), low=0),
    "parts": fields.Each(fields.Field(), least=1),
    "certificate": fields.Plain(dict, optional=True),
    "evidence": fields.Plain(dict, optional=True),
}


def state_of(estimator: "MetricDecision") -> fields.State:
    """The fitted estimator as a nested dict of plain values and arrays."""
    parameters = {}
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, PLAIN_VALUES):
            parameters[name] = value
    preparation = estimator._preparation
    kept = estimator._kept
    blend = estimator.blend_
    return {
        "parameters": parameters,
        "encoder": _state_unless_none(preparation.encoder),
        "feature_names": estimator._column_names(),
        "rows": kept.numbers,
        "X": arrays.to_numpy(kept.rows.Z),
        "Y": kept.rows.Y,
        "weights": kept.rows.weights,
        "keys": kept.rows.keys,
        "centre": arrays.to_numpy(preparation.centre),
        "scale": arrays.to_numpy(preparation.scale),
        "held_out": estimator._conformal_scores,
        "parts": [part.state() for part in blend.parts],
        "certificate": _state_unless_none(blend.certificate),
        "evidence": _state_unless_none(estimator.evidence_),
        **_own_state(estimator),
    }


def restored(cls: type[D], state: fields.State) -> D:
    """The estimator of such a state, after checking all of it."""
    own_fields = {_stored_name(name): declared for name, declared in cls._own_fields.items()}
    sizes = fields.check(state, {**FIELDS, **own_fields})
    estimator = fields.with_parameters(cls, state["parameters"], "parameters")
    estimator._preparation = _restored_preparation(state, sizes["d"])
    _restore_columns(estimator, state["feature_names"], sizes["d"])
    rows = Training(state["X"], state["Y"], state["weights"], state["keys"])
    estimator._kept = KeptRows(state["rows"], rows)
    estimator._conformal_scores = scores = state["held_out"]
    # sets and intervals take their quantiles by place: unsorted scores would break every promise
    fields.expect((np.diff(scores) >= 0).all(), "held_out", "not sorted", "sorted numbers")
    estimator._store_parts(_restored_parts(state, rows), _restored_certificate(state))
    estimator.metric_ = None
    estimator.trials_ = []
    estimator.evidence_ = _restored_evidence(cls, state["evidence"])
    for name, declared in cls._own_fields.items():
        setattr(estimator, name, _restored_value(declared, state[_stored_name(name)]))
    return estimator


def _state_unless_none(value: Any) -> fields.State | None:
    return None if value is None else value.state()


# ---- what each kind of estimator adds


def _stored_name(attribute: str) -> str:
    return attribute.strip("_")


def _own_state(estimator: "MetricDecision") -> fields.State:
    """The attributes that only this class has."""
    state: fields.State = {}
    for name, declared in estimator._own_fields.items():
        value = getattr(estimator, name)
        if isinstance(declared, fields.Labels):
            state[_stored_name(name)] = fields.labels_state(value)
        else:
            state[_stored_name(name)] = float(value)
    return state


def _restored_value(declared: fields.Field, value: Any) -> Any:
    if isinstance(declared, fields.Labels):
        return fields.labels_from_state(value)
    return float(value)


# ---- parts of the state


def _restored_preparation(state: fields.State, n_features: int) -> Preparation:
    encoder = None
    if state["encoder"] is not None:
        encoder = TableEncoder.from_state(state["encoder"])
        width = len(encoder.get_feature_names_out())
        expected = f"{n_features} features"
        fields.expect(width == n_features, "encoder", f"{width} features", expected)
    return Preparation(encoder, state["centre"], state["scale"])


def _restore_columns(estimator: "MetricDecision", names: list[str] | None, n_features: int) -> None:
    """Set how many columns X has, and their names if it has some."""
    encoder = estimator._preparation.encoder
    n_columns = n_features
    if encoder is not None:
        n_columns = encoder.n_features_in_
    estimator.n_features_in_ = n_columns
    if names is not None:
        expected = f"{n_columns} names"
        fields.expect(len(names) == n_columns, "feature_names", f"{len(names)} names", expected)
        estimator.feature_names_in_ = np.array(names, object)


def _restored_parts(state: fields.State, rows: Training) -> list[Part]:
    parts = []
    for number, part in enumerate(state["parts"]):
        parts.append(Part.from_state(part, f"parts.{number}", rows))
    total = sum(part.weight for part in parts)
    fields.expect(abs(total - 1) < WEIGHTS_ATOL, "the sum of the weights of parts", total, "1")
    return parts


def _restored_certificate(state: fields.State) -> Certificate | None:
    certificate = state["certificate"]
    return None if certificate is None else Certificate.from_state(certificate)


def _restored_evidence(cls: type["MetricDecision"], state: fields.State | None) -> Any:
    if state is None:
        return None
    evidence = cls._evidence.from_state(state, "evidence")
    for name in ("chosen", "usual"):
        is_known = state[name] in state["error"]
        fields.expect(is_known, f"evidence.{name}", state[name], "one of evidence.error")
    return evidence
