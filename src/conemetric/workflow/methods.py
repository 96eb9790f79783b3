"""The methods by the names people type, what each learns from, and how to choose one."""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Method:
    """A method of the library: its short name, its class, the supervision it takes, and
    when to prefer it.
    """

    name: str
    class_name: str
    accepts: tuple[str, ...]
    summary: str
    automatic: bool = True  # considered by "auto"
    max_features: int = 10**9  # beyond which "auto" leaves it out

    def make(self, **parameters):
        """An unfitted estimator; parameters its class does not know are left out."""
        estimator = _class(self)()
        known = estimator.get_params(deep=False)
        return estimator.set_params(
            **{name: value for name, value in parameters.items() if name in known}
        )


KNOWN = (
    Method(
        "frob",
        "FrobMetric",
        ("labels", "triplets"),
        "large margin, Frobenius norm; the fast all-rounder",
    ),
    Method(
        "boost",
        "BoostMetric",
        ("labels", "triplets"),
        "large margin, trace norm; low rank",
        max_features=500,
    ),
    Method(
        "dml-eig",
        "DMLEig",
        ("labels", "pairs"),
        "pairs only: similar close, the closest dissimilar far",
        max_features=128,
    ),
    Method(
        "lmnn-eig",
        "LMNNEig",
        ("labels", "triplets"),
        "large margin with a pull on the targets",
        max_features=128,
    ),
    Method(
        "relative",
        "RelativeComparisons",
        ("labels", "triplets"),
        "one weight per feature; tiny and readable",
    ),
    Method(
        "numax",
        "NuMax",
        ("none", "labels", "pairs"),
        "keeps all distances within 1 +- delta in few dimensions",
        False,
    ),
)


def _class(method):
    return getattr(importlib.import_module("conemetric"), method.class_name, None)


def available(supervision=None):
    """The methods that are installed and take ``supervision`` ("labels", "pairs",
    "triplets" or "none"; None for all).
    """
    return [
        method
        for method in KNOWN
        if _class(method) and (supervision is None or supervision in method.accepts)
    ]


def find(name, supervision):
    """The method called ``name``, or a clear refusal.

    Examples
    --------
    >>> from conemetric.workflow.methods import find
    >>> find("frob", "labels").class_name
    'FrobMetric'
    """
    fitting = {method.name: method for method in available(supervision)}
    if name not in fitting:
        takers = ", ".join(fitting) or "none"
        known = {method.name: method for method in available()}
        if name in known:
            raise ValueError(
                f"method '{name}' learns from {' or '.join(known[name].accepts)}, not "
                f"{supervision}; use one of: {takers}."
            )
        raise ValueError(
            f"method '{name}' is not known; methods that learn from {supervision}: {takers}."
        )
    return fitting[name]
