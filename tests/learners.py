"""Which public estimators learn a metric, and from what, so that no list of estimators in a test misses one.

Tests run through lists of estimators with settings of their own: quick ones, exact ones, several losses.
`check_complete`, after such a list, says what it is about ("kernel", "triplets"). Whoever adds an estimator
that takes it, by the signature of its class, gets an error at every list that lacks it.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping

from sklearn.base import BaseEstimator

import conemetric

# what lists may leave out, with the reason
NO_PROGRAM = {
    "AutoMetric": "blends the metrics of others",
    "GradientMetric": "solves a linear system",
}
SEVERAL_FITS = {"FrobMetricCV": "is FrobMetric, fitted several times"}


def public_classes() -> list[type]:
    """The estimators among the public names of the package."""
    exported = [getattr(conemetric, name) for name in conemetric.__all__]
    return [each for each in exported if isinstance(each, type) and issubclass(each, BaseEstimator)]


def fit_takes(name: str) -> Callable[[type], bool]:
    return lambda kind: name in inspect.signature(kind.fit).parameters


def has_parameter(name: str) -> Callable[[type], bool]:
    return lambda kind: name in inspect.signature(kind).parameters


# what a learner may take, and how one sees it
TAKES: dict[str, Callable[[type], bool]] = {
    "labels": fit_takes("target"),  # which says what labels are
    "triplets": fit_takes("triplets"),
    "tuples": lambda kind: bool(getattr(kind, "_widths", ())),  # of points, in the place of X
    "neighbors": fit_takes("neighbors"),
    "kernel": has_parameter("kernel"),
    "sparse rows": lambda kind: kind().__sklearn_tags__().input_tags.sparse,
}


def learners(takes: str) -> set[str]:
    """The names of all public classes that learn a metric from labels, and take this too."""
    kinds = filter(TAKES["labels"], public_classes())
    return {kind.__name__ for kind in kinds if TAKES[takes](kind)}


def check_complete(
    estimators: Iterable, takes: str, without: Mapping[str, str] | None = None
) -> None:
    """Raise unless every learner that ``takes`` this is in a list of estimators, or of their names.

    ``without`` are the names of those that the list leaves out, each with a reason. What follows a comma
    in a name is a setting.
    """
    without = without or {}
    listed = set()
    for estimator in estimators:
        if isinstance(estimator, str):
            listed.add(estimator.split(",")[0])
        else:
            listed.add(type(estimator).__name__)
    expected = learners(takes)
    missing = expected - listed - set(without)
    if missing:
        raise AssertionError(
            f"this list lacks {', '.join(sorted(missing))}, which takes {takes}: add it, or name it in "
            "`without` with the reason"
        )
    needless = [name for name in without if name in listed or name not in expected]
    if needless:
        raise AssertionError(f"`without` need not name {', '.join(needless)}")
