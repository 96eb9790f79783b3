"""The papers' k-NN protocol: split, learn on the training part, choose parameters on
the validation part, report the test error.

Everything that is fitted (preprocessing, metric, neighbours) sees the training part
only. As in the papers, the metric is not refitted on training and validation together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from conemetric.core.arrays import to_numpy
from conemetric.core.clock import stopwatch
from conemetric.core.progress import all_or_nothing
from conemetric.evaluation.knn import evenly_by_class, knn_error


@dataclass(frozen=True)
class Split:
    """Row numbers of the training, validation and test parts (validation may be empty)."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def random_splits(
    n, fractions=(0.7, 0.15, 0.15), n_runs=10, seed=0, labels=None
) -> Iterator[Split]:
    """Yield ``n_runs`` random splits of n rows; run r is the same whatever ``n_runs`` is.

    With ``labels``, every class is divided in these shares, as nearly as whole rows
    allow.

    Examples
    --------
    >>> from benchmarks.papers.knn_protocol import random_splits
    >>> [len(part) for split in random_splits(100, n_runs=1) for part in (split.train, split.validation, split.test)]
    [70, 15, 15]
    """
    if len(fractions) != 3 or min(fractions) < 0 or not np.isclose(sum(fractions), 1):
        raise ValueError(
            f"fractions={fractions} must be three shares (train, validation, test) that add up to "
            "1."
        )
    labels = None if labels is None else np.asarray(labels)
    if labels is not None and labels.shape != (n,):
        raise ValueError(f"labels has shape {labels.shape} for {n} rows; give one label for each.")
    # cumulative sums in floating point may fall a hair short of the integer meant
    first, second = (int(cut) for cut in np.cumsum(fractions)[:2] * n + 1e-9)
    for run in range(n_runs):
        order = np.random.default_rng([seed, run]).permutation(n)
        if labels is not None:
            order = evenly_by_class(order, labels)
        yield Split(order[:first], order[first:second], order[second:])


def official_split(n, n_train, n_validation=0, seed=0) -> Split:
    """The official split, with ``n_validation`` rows drawn from its training part.

    Examples
    --------
    >>> from benchmarks.papers.knn_protocol import official_split
    >>> split = official_split(10, 8, n_validation=2)
    >>> len(split.train), len(split.validation), split.test
    (6, 2, array([8, 9]))
    """
    if not 0 < n_train < n or not 0 <= n_validation < n_train:
        raise ValueError(f"n_train={n_train} and n_validation={n_validation} do not fit {n} rows.")
    order = np.random.default_rng(seed).permutation(n_train)
    return Split(order[n_validation:], order[:n_validation], np.arange(n_train, n))


def preprocessing(*, standardise=False, n_components=None):
    """An unfitted transformer: standardise, then PCA to ``n_components`` (each optional).

    Examples
    --------
    >>> from benchmarks.papers.knn_protocol import preprocessing
    >>> [name for name, step in preprocessing(standardise=True, n_components=2).steps]
    ['standardscaler', 'pca']
    """
    steps = [StandardScaler()] if standardise else []
    if n_components is not None:
        steps.append(PCA(n_components, svd_solver="full"))
    return make_pipeline(*steps) if steps else make_pipeline("passthrough")


@dataclass(frozen=True)
class Outcome:
    """One method on one split.

    Attributes
    ----------
    parameters : mapping
        Chosen on validation.
    validation_error, test_error : float
        The former is nan without a validation part.
    seconds : float
        Time of the fit with the chosen parameters.
    metric : the fitted estimator (or, of a boosted one, the transformer of the chosen stage), or None for Euclidean
    """

    parameters: Mapping[str, Any]
    validation_error: float
    test_error: float
    seconds: float
    metric: Any


Grid = Sequence[Mapping[str, Any]] | Callable[[np.ndarray, np.ndarray], Sequence[Mapping[str, Any]]]


def evaluate(
    estimator,
    X,
    y,
    split,
    *,
    grid: Grid = ({},),
    stages=(),
    prepare=None,
    n_neighbors=3,
    place: Callable | None = None,
) -> Outcome:
    """Choose parameters on validation and report the test error, on one split.

    Parameters
    ----------
    estimator : unfitted transformer with ``fit(X, y)``, or None for the Euclidean distance
    X, y : arrays
    split : Split
    grid : sequence of parameter mappings, or a function of the prepared training X and y that returns one
        The first of those with the least validation error is taken.
    stages : collection of int, default=()
        When given, an estimator with ``staged_metrics`` is stopped where its validation
        error is least (the latest of equals), among these iterations of each pass and
        the last of each; ``parameters["stage"]`` says where, counted through all
        passes.
    prepare : unfitted transformer, default=None
        Preprocessing, fitted on the training part.
    n_neighbors : int, default=3
    place : function, default=None
        Brings the training rows to where the metric is to be learned, on a GPU say;
        neighbours are found on the host.

    Returns
    -------
    Outcome

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import FrobMetric
    >>> from benchmarks.papers.knn_protocol import evaluate, random_splits
    >>> (X, y), (split,) = load_iris(return_X_y=True), random_splits(150, n_runs=1)
    >>> outcome = evaluate(FrobMetric(tol=1e-2), X, y, split, grid=[{"C": 0.1}, {"C": 1.0}])
    >>> outcome.test_error < 0.2, sorted(outcome.parameters)
    (True, ['C'])
    """
    X, y = to_numpy(X), to_numpy(y)
    parts = [X[rows] for rows in (split.train, split.validation, split.test)]
    if prepare is not None:
        prepare = clone(prepare).fit(parts[0], y[split.train])
        parts = [prepare.transform(part) if len(part) else part for part in parts]
    train, validation, test = parts
    y_train, y_validation, y_test = (
        y[rows] for rows in (split.train, split.validation, split.test)
    )
    choices = list(grid(train, y_train) if callable(grid) else grid)
    if not choices:
        raise ValueError("grid is empty; give at least one mapping of parameters ({} for none).")
    if len(choices) > 1 and len(validation) == 0:
        raise ValueError(
            f"grid has {len(choices)} choices but the split has no validation part to choose on; "
            "give one."
        )
    tried = []
    for parameters in choices:
        metric, seconds = None, 0.0
        if estimator is not None:
            metric = clone(estimator).set_params(**parameters)
            began = stopwatch()
            with all_or_nothing():
                metric.fit(train if place is None else place(train), y_train)
            seconds = stopwatch() - began
        candidates = [(dict(parameters), metric)]
        if stages and hasattr(metric, "staged_metrics"):
            candidates = [
                ({**parameters, "stage": number}, stage)
                for number, stage in _stages(metric, stages)
            ][::-1]
        for parameters, metric in candidates:
            error = (
                knn_error(metric, train, y_train, validation, y_validation, n_neighbors)
                if len(validation)
                else np.nan
            )
            tried.append((error, parameters, seconds, metric))
    error, parameters, seconds, metric = min(tried, key=lambda trial: trial[0])
    test_error = knn_error(metric, train, y_train, test, y_test, n_neighbors)
    return Outcome(dict(parameters), error, test_error, seconds, metric)


def _stages(metric, wanted):
    """(number, transformer) of the stages of a boosted metric that are the wanted
    iterations of their pass or its last.
    """
    iterations = metric.history_["iteration"]
    iterations = iterations[iterations > 0]
    last = np.append(iterations[1:] == 1, True)
    for number, (iteration, ends, components) in enumerate(
        zip(iterations, last, metric.staged_metrics(), strict=True), 1
    ):
        if ends or iteration in wanted:
            # the same metric, in no more rows than features
            compact = np.linalg.qr(to_numpy(components), mode="r")
            yield number, FunctionTransformer(_transform, kw_args={"components": compact})


def _transform(X, components):
    return X @ components.T
