"""Files of older formats as the states of today, which are then checked like those of any file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.fields import Each, FieldError, Named, Number, Text, check, expect
from ..tables.kinds import IndicatorColumn, Kind, NumberColumn
from .checked import number_from_value
from .learned import FIELDS

WORD_FIELDS = {
    "feature_names": Each(Text(), "features"),
    "categories": Named(Each(Text(), least=1, distinct=True)),
    "fill": Each(Number(), "features", optional=True),
}


@contextmanager
def translating() -> Iterator[None]:
    """Refuse a header that lacks something, or holds it in another form than the format had."""
    try:
        yield
    except FieldError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise FieldError("header", f"{error!r:.200}", "one of an older format") from error


@translating()
def metric_state(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The state of a file of format 1 to 4."""
    scores = header.get("scores")
    return {
        **{name: header.get(name) for name in (*FIELDS, "categories")},
        **arrays,
        "maps": "queries" if header["method"] == "QueryAdapter" else "rows",
        "certificate": _certificate(header),
        "threshold": number_from_value(header.get("threshold")),
        "scores": scores and {"target": None, "window": None, **scores},
    }


@translating()
def without_categories(state: Any) -> Any:
    """The state with an encoder in place of the categories that files before it had."""
    categories = state.pop("categories", None) if isinstance(state, dict) else None
    if categories is None:
        return state
    fill = None if state["fill"] is None else state["fill"].tolist()
    encoder, shift = encoder_of_words(state["feature_names"], categories, fill)
    offset = state["offset"] + state["components"] @ shift
    return {**state, "encoder": encoder, "fill": None, "offset": offset}


def encoder_of_words(
    names: list[str], categories: dict[str, list[str]], fill: list[float] | None
) -> tuple[dict[str, Any], np.ndarray]:
    """The state of a `TableEncoder` with these features: numbers, and words as ``column=word``, 1
    where the column holds it and else 0. It takes the values that ``fill`` gaps from numbers; these
    are the array returned.
    """
    check({"feature_names": names, "categories": categories, "fill": fill}, WORD_FIELDS)
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


# ---- decisions of format 1: one metric and one rule, words and gaps of a table in the notes

NUMBERS = {"MetricClassifier": ("temperature_",), "MetricRegressor": ("_y_mean", "_y_scale")}
LABEL_NAMES = {np.dtype(code).str: np.dtype(code).name for code in "?bBhHiIlLqQefd"}
KEPT = ("X", "Y", "weights", "keys", "held_out", "rows")


@translating()
def decision_state(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The state of a file of format 1."""
    name, rule, notes = header["estimator"], header["rule"], header["notes"]
    kernel, fitted = "kernel" in rule, {}
    if kernel:
        fitted = {key: arrays[key] for key in ("coefficients", "offset")}
        fitted |= {"landmarks": header["landmarks"], "scale": header["scale"]}
        fitted |= {"certificate": _certificate(header)}
    own = {number.strip("_"): header["numbers"][number] for number in NUMBERS[name]}
    if name == "MetricClassifier":
        dtype, values = (header["classes"][key] for key in ("dtype", "values"))
        dtype = {"<U": "str", "|O": "object"}.get(dtype[:2], LABEL_NAMES.get(dtype))  # not its code
        own |= {"classes": {"dtype": dtype, "values": values}, "unseen": 0.0}
    names, encoder, shift = header["feature_names"], None, np.zeros(1)
    categories, fill = notes.get("categories"), notes.get("fill")
    if categories is not None or fill is not None:
        names, d = names or notes.get("feature_names"), len(arrays["centre"])
        listed = [f"x{i}" for i in range(d)] if names is None else names
        encoder, shift = encoder_of_words(listed, categories or {}, fill)
        encoder["named"] = names is not None
        names = names and encoder["names"]
    L = np.ascontiguousarray((arrays["components"] * arrays["spread"]).T)  # maps scaled rows
    plain = L.shape[0] == L.shape[1] and np.allclose(L, np.eye(len(L)), rtol=0, atol=1e-6)
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
                "map": None if plain else L,
                "places": np.arange(len(arrays["rows"])),
                "fitted": fitted,
            }
        ],
        "certificate": None,
        "evidence": header["evidence"],
        **own,
    }
    return {"estimator": name, "decision": decision, "notes": notes}


def _certificate(header):
    """The certificate with numbers for infinities and NaN, which are text."""
    values = header["certificate"]
    return values and {key: number_from_value(value) for key, value in values.items()}
