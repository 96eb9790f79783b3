"""`FrobMetric` for several values of C: the path, and the choice by cross-validation."""

from collections.abc import Iterable
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from ...core.arrays import take, to_numpy
from ...core.atomic import atomic_fit
from ...core.progress import all_or_nothing
from ...core.sklearn_private import Interval
from ...core.weights import check_weights, class_factors
from ...engine.certificate import Status
from ...estimators.scale import mean_impostor_distance
from ...estimators.supervised import Supervision
from ...estimators.tuples import n_in_tuple
from ...estimators.validation import ascending
from ...evaluation.knn import knn_predict
from ...neighbours.ties import canonical_order, labelled_keys
from .frobmetric import FrobMetric

# Default grid of C s^4: about the default of `FrobMetric`, 30 per feature.
GRID = (1, 1e5)


@dataclass(eq=False, repr=False)
class FrobMetricCV(FrobMetric):
    """`FrobMetric` with C chosen by cross-validated k-NN accuracy along a warm-started path.

    Parameters
    ----------
    Cs : int or array-like of floats, default=6
        Values of C to try; an int means this many between 1 and 1e5 in the scale-free unit
        1 / s^4 of ``C="scale"``.
    cv : int or cross-validation splitter, default=5
    n_neighbors : int, default=3
        k of the k-NN classifier that scores a metric.
    kernel, prior, loss, n_targets, n_impostors, n_references, class_weight, n_components, \
preprocessor, tol, max_iter, random_state, verbose
        As in `FrobMetric`.

    Attributes
    ----------
    C_ : float
        The chosen C; the metric is fitted with it on all rows.
    Cs_ : array (n_Cs,)
        Values tried, ascending.
    scores_ : array (n_folds, n_Cs)
        Held-out accuracy, weighted by row and class.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from conemetric import FrobMetricCV
    >>> X, y = load_wine(return_X_y=True)
    >>> metric = FrobMetricCV(Cs=3, cv=3).fit(X / X.std(axis=0), y)
    >>> metric.scores_.shape
    (3, 3)
    """

    Cs: Any = 6
    _: KW_ONLY
    cv: Any = 5
    n_neighbors: int = 3
    C: float | str = field(default="scale", init=False)  # chosen, not a parameter
    warm_start: bool = field(default=False, init=False)

    _widths = ()
    _takes_dask = False
    _learns_from_quantities = False
    _parameter_constraints = {
        **FrobMetric._parameter_constraints,
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "cv": ["cv_object"],
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
    }
    del _parameter_constraints["C"], _parameter_constraints["warm_start"]  # not parameters

    @atomic_fit(prefer_skip_nested_validation=True)
    def fit(  # type: ignore[override]
        self, X: Any, y: Any = None, *, sample_weight: Any = None, target: str = "auto"
    ) -> Self:
        """Choose C by cross-validation, then learn the metric from all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or tensor (n, n_features)
        y : array-like (n,)
            Class labels.
        sample_weight : array-like (n,), default=None
            Weights of the rows, both in training and when held out, but not as neighbours
            that vote. Rows of weight 0 are left out.
        target : {"auto", "classes"}, default="auto"
            As in `FrobMetric.fit`; a quantity is refused.

        Returns
        -------
        self
        """
        if n_in_tuple(X, self.preprocessor) is not None:
            raise ValueError("X holds tuples; for them use GridSearchCV(FrobMetric(), {'C': ...}).")
        given = self._constraints(Supervision(X, y, sample_weight=sample_weight, target=target))
        span, operator = self._operator(given)
        if isinstance(self.Cs, Integral):
            size = mean_impostor_distance(operator, given.weights, "Cs")
            self.Cs_ = np.geomspace(*GRID, self.Cs) / size**2
        else:
            self.Cs_ = ascending("Cs", self.Cs)
        with all_or_nothing():
            self.scores_ = np.array(self._cross_validate(given, y, sample_weight))
        best = int(self.scores_.mean(axis=0).argmax())  # of equal ones the smallest C
        self._fit_operator(span, operator, given, self.Cs_[best], None)
        return self

    def _cross_validate(self, given: Any, y: Any, sample_weight: Any) -> list[list[float]]:
        """Return held-out accuracies (n_folds, n_Cs), of the rows that have a label and a weight."""
        y = np.ravel(to_numpy(y))
        kept = np.arange(len(y))
        if given.rows is not None:
            kept = to_numpy(given.rows)
        labelled = np.flatnonzero(given.labels >= 0)
        X = take(given.points, labelled)
        if isinstance(self.cv, Integral):  # folds that do not depend on the order of rows
            order = canonical_order(X, given.labels[labelled])
            labelled = labelled[order]
            X = take(X, order)
        rows = kept[labelled]
        weights = check_weights(sample_weight, len(y), "rows of X")[rows]
        return [self._fold_scores(X, y[rows], weights, *fold) for fold in self._folds(y, rows)]

    def _folds(self, y: np.ndarray, rows: np.ndarray) -> Iterable[Any]:
        """Return (train, test) as positions in ``rows``; splits listed by the user refer to all
        rows.
        """
        if not isinstance(self.cv, Integral | None) and not hasattr(self.cv, "split"):
            return _listed_folds(self.cv, len(y), rows)
        codes = np.unique(y[rows], return_inverse=True)[1]  # classes even where y holds fractions
        cv = check_cv(self.cv, codes, classifier=True)
        if isinstance(self.cv, Integral):
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            # shuffled: the canonical order sorts rows, and folds of consecutive ones would differ
            cv = type(cv)(cv.n_splits, shuffle=True, random_state=seed)
        return cv.split(np.zeros(len(rows)), codes)

    def _fold_scores(
        self, X: Any, y: np.ndarray, weights: np.ndarray, train: np.ndarray, test: np.ndarray
    ) -> list[float]:
        """Return the accuracies on the rows ``test`` of the metrics learned from ``train``."""
        shared = FrobMetric().get_params().keys() & self.get_params().keys()
        parameters = {name: getattr(self, name) for name in shared}
        # the rows are in the coordinates of the kernel already
        parameters |= {"verbose": 0, "kernel": None, "class_weight": self._class_weight(y[train])}
        first = FrobMetric(**parameters)
        first._depends_on_scales = False  # the scales of all rows are checked before
        path = _path(first, X[train], y[train], None, weights[train], "classes", self.Cs_)
        if self.class_weight is not None:
            weights = weights * class_factors(self._class_weight(y), y, weights)
        keys = labelled_keys(X[train], y[train])  # by which ties between neighbours are broken
        scores = []
        for metric in path:
            known = metric.transform(X[train])
            new = metric.transform(X[test])
            predicted = knn_predict(known, y[train], new, self.n_neighbors, keys)
            scores.append(np.average(predicted == y[test], weights=weights[test]))
        return scores

    def _class_weight(self, y: np.ndarray) -> Any:
        """Return ``class_weight``, without classes that are not in y."""
        if not isinstance(self.class_weight, dict):
            return self.class_weight
        classes = set(y.tolist())
        return {name: factor for name, factor in self.class_weight.items() if name in classes}


def _listed_folds(folds: Any, n_rows: int, rows: np.ndarray) -> list[list[np.ndarray]]:
    """Return folds that refer to all rows, by numbers or masks, as positions in ``rows``."""
    everything = np.arange(n_rows)
    position = np.full(n_rows, -1)  # of rows without a label or a weight
    position[rows] = np.arange(len(rows))
    found = []
    for fold in folds:
        parts = [position[everything[part]] for part in fold]
        found.append([part[part >= 0] for part in parts])
    return found


def frobmetric_path(
    X: Any,
    y: Any = None,
    *,
    triplets: Any = None,
    sample_weight: Any = None,
    target: str = "auto",
    Cs: Any,
    **parameters: Any,
) -> list[FrobMetric]:
    """Fit `FrobMetric` for ascending C, each from the multipliers of the one before.

    Parameters
    ----------
    X, y, triplets, sample_weight, target
        As in `FrobMetric.fit`.
    Cs : array-like of floats
    **parameters
        Other parameters of `FrobMetric`.

    Returns
    -------
    list of FrobMetric
        One fitted estimator per C, in ascending order; Ctrl-C ends the list with the
        interrupted fit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from conemetric import frobmetric_path
    >>> path = frobmetric_path(*load_iris(return_X_y=True), Cs=[0.01, 0.1, 1.0])
    >>> [metric.C_ for metric in path]
    [0.01, 0.1, 1.0]
    """
    if "C" in parameters:
        raise TypeError("frobmetric_path takes Cs, a list, and not C; pass Cs alone.")
    return _path(FrobMetric(**parameters), X, y, triplets, sample_weight, target, Cs)


def _path(
    first: FrobMetric, X: Any, y: Any, triplets: Any, sample_weight: Any, target: str, Cs: Any
) -> list[FrobMetric]:
    """Return copies of ``first`` fitted for ascending C, each from the multipliers of the last."""
    Cs = ascending("Cs", Cs)
    first._validate_params()
    given = first._constraints(Supervision(X, y, triplets, None, None, sample_weight, target))
    span, operator = first._operator(given)
    path: list[FrobMetric] = []
    start = None
    for C in Cs.tolist():
        metric = copy(first).set_params(C=C)
        if start is not None:  # multipliers are between 0 and C/m, and mostly at an end
            start = start * (C / path[-1].C_)
        start = metric._fit_operator(span, operator, given, C, start)
        path.append(metric)
        if path[-1].certificate_.status is Status.INTERRUPTED:
            break
    return path
