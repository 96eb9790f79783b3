"""The methods by the names people type, what each learns from, and how to choose one."""

import importlib
from dataclasses import dataclass
from typing import Any

WORK = 1e13  # scalar operations of a fit from the default number of rows: minutes on a few cores
PAIR_WORK = 40  # scalar operations per pair of rows and feature, counted for NuMax


@dataclass(frozen=True)
class Method:
    """A method of the library: its short name, its class, the supervision it takes, and
    when to prefer it.
    """

    name: str
    class_name: str
    accepts: tuple[str, ...]
    summary: str
    passes: int = 60  # over the rows in a typical fit, measured
    visits_pairs: bool = False  # whether a fit visits all pairs of rows

    def most_rows(self, n_features: int) -> int:
        """Rows that a fit takes minutes for on a few cores, by its arithmetic alone: the
        same on every machine.
        """
        if self.visits_pairs:
            return int((WORK / (PAIR_WORK * n_features)) ** 0.5)
        return int(WORK / (self.passes * (2 * n_features**2 + 100 * n_features + 1000)))

    def make(self, **parameters: Any) -> Any:
        """An unfitted estimator; parameters its class does not have are ignored."""
        estimator = _class(self)()
        known = estimator.get_params(deep=False)
        return estimator.set_params(
            **{name: value for name, value in parameters.items() if name in known}
        )


KNOWN = (
    Method(
        "auto",
        "AutoMetric",
        ("labels",),
        "a blend of several methods, weighted on held-out rows; reports what it gains",
        passes=1000,
    ),
    Method(
        "frob",
        "FrobMetric",
        ("labels", "quantity", "triplets"),
        "large margin, Frobenius norm; the fast all-rounder",
    ),
    Method(
        "boost",
        "BoostMetric",
        ("labels", "quantity", "triplets"),
        "large margin, trace norm; low rank",
        passes=500,
    ),
    Method(
        "dml-eig",
        "DMLEig",
        ("labels", "pairs"),
        "pairs only: similar close, the closest dissimilar far",
        passes=1000,
    ),
    Method(
        "lmnn-eig",
        "LMNNEig",
        ("labels", "quantity", "triplets"),
        "large margin with a pull on the targets",
        passes=1000,
    ),
    Method(
        "relative",
        "RelativeComparisons",
        ("labels", "quantity", "triplets"),
        "one weight per feature; tiny and readable",
        passes=200,
    ),
    Method(
        "numax",
        "NuMax",
        ("none", "labels", "pairs"),
        "keeps all distances within 1 +- delta in few dimensions",
        visits_pairs=True,
    ),
)


def _class(method):
    return getattr(importlib.import_module("conemetric"), method.class_name, None)


def methods_for(supervision: str | None = None) -> list[Method]:
    """The methods that are installed and take ``supervision`` ("labels", "quantity",
    "pairs", "triplets" or "none"; None for all).
    """
    return [
        method
        for method in KNOWN
        if _class(method) and (supervision is None or supervision in method.accepts)
    ]


def most_rows(name: str, supervision: str, n_features: int) -> int:
    """How many rows to learn from by default.

    Examples
    --------
    >>> from conemetric.app.studies.methods import most_rows
    >>> most_rows("frob", "labels", 64) > most_rows("auto", "labels", 64) > 100_000
    True
    """
    return find(name, supervision).most_rows(n_features)


def find(name: str, supervision: str) -> Method:
    """The method called ``name``; an error if it cannot learn from ``supervision``.

    Examples
    --------
    >>> from conemetric.app.studies.methods import find
    >>> find("frob", "labels").class_name
    'FrobMetric'
    """
    fitting = {method.name: method for method in methods_for(supervision)}
    if name not in fitting:
        takers = ", ".join(fitting) or "none"
        known = {method.name: method for method in methods_for()}
        if name in known:
            raise ValueError(
                f"method '{name}' learns from {' or '.join(known[name].accepts)}, not "
                f"{supervision}; use one of: {takers}."
            )
        raise ValueError(
            f"method '{name}' is not known; methods that learn from {supervision}: {takers}."
        )
    return fitting[name]
