"""Rows held out fold by fold: they judge the candidates of `AutoMetric`, weigh them and give the
evidence for their blend.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.utils.validation import column_or_1d, has_fit_parameter

from ..core import spectral
from ..core.arrays import is_torch, like, namespace, to_numpy
from ..core.notebooks import html_table
from ..core.progress import all_or_nothing
from ..core.warn import collected_warnings
from ..estimators.base import MahalanobisMetric
from ..evaluation.knn import evenly_by_class, majority, nearest_labels
from ..evaluation.statistics import mcnemar, p_in_words
from ..neighbours.ties import canonical_order, labelled_keys

# names among those of the candidates
BASELINE = "Euclidean"
BLEND = "blend"
FEW_ROWS = 600  # five folds up to this many rows, three beyond
VOTES = (1, 3, 5, 7)  # the k that n_neighbors="auto" chooses from
SHARPNESS = 1.5  # c of `automatic`; 1 to 3 make no measurable difference (docs/defaults.md)
# standard errors by which the blend must be better to weigh as much as the Euclidean distance: worse
# by one, since that is among its candidates
CAUTION = -1.0
FEW_JUDGED = 60  # held-out rows that call for one more: fewer make a standard error unreliable
LEAST_SUPPORT = 0.05  # a smaller p counts as 0: noise would otherwise decide ties of the vote
TOL = 0.1  # of metrics that held-out rows judge; smaller gaps did not lower the held-out error
SPREAD = 0.05  # fraction of the mean squared distance to all rows in a metric's scale
MOST_JUDGED = 3000  # held-out rows in all folds together
CERTAIN = 0.05  # p-value below which the blend is called better or worse
LINEAR = 1e-3  # relative error up to which a map counts as linear: float32 stays well within


@dataclass(frozen=True)
class CandidateMethod:
    """An estimator, and how many rows and features it can be given."""

    estimator: Any
    most_rows: int = 10**9
    most_features: int = 10**9


@dataclass(frozen=True)
class Evidence:
    """Held-out error of each candidate, of their blend and of the Euclidean distance.

    Every row is classified by metrics learned without it, and the blend of its fold is weighted by
    the errors in the other folds. The metrics that made those errors did learn from this row, so
    the blend's error can be slightly optimistic, as in any stacking without an outer loop.

    Attributes
    ----------
    error, standard_error : mapping of str to float
        Fraction of rows that the k-NN vote classifies wrongly, for each candidate, "Euclidean" and
        "blend", and its standard error.
    p_value : float
        Exact McNemar test between the blend and the Euclidean distance.
    n_rows, n_neighbors : int
        Held-out rows, and neighbours that vote.

    Examples
    --------
    >>> from conemetric.automatic.folds import Evidence
    >>> errors = {"Euclidean": 0.063, "FrobMetric": 0.045, "blend": 0.041}
    >>> print(Evidence(errors, {name: 0.01 for name in errors}, 0.003, 700, 3))
    better than Euclidean: 4.1% against 6.3%, p = 0.003
    """

    error: Mapping[str, float]
    standard_error: Mapping[str, float]
    p_value: float
    n_rows: int
    n_neighbors: int

    @classmethod
    def of(cls, wrong: Mapping[str, np.ndarray], n_neighbors: int) -> Self:
        """That of what each candidate gets wrong among the held-out rows."""
        error = {}
        standard_error = {}
        for name, values in wrong.items():
            error[name] = float(values.mean())
            standard_error[name] = float(values.std() / len(values) ** 0.5)
        p_value = mcnemar(wrong[BASELINE], wrong[BLEND])
        return cls(error, standard_error, p_value, len(wrong[BASELINE]), n_neighbors)

    def __str__(self) -> str:
        blend = self.error[BLEND]
        euclidean = self.error[BASELINE]
        p = self.p_value
        figures = f"{blend:.1%} against {euclidean:.1%}, {p_in_words(p)}"
        if p >= CERTAIN:
            return f"no measurable gain over Euclidean ({figures}): keep the Euclidean distance"
        if blend > euclidean:
            return f"worse than Euclidean ({figures}): keep the Euclidean distance"
        return f"better than Euclidean: {figures}"

    def _repr_html_(self) -> str:
        errors = {}
        for name in sorted(self.error, key=lambda name: self.error[name]):
            spread = f"± {self.standard_error[name]:.2%}"
            errors[name] = f"{self.error[name]:.2%} {spread}"
        return html_table(f"Held-out error on {self.n_rows:,} rows: {self}", errors)


class Fold(NamedTuple):
    """Rows to learn from, every leading part with the classes in proportion, and rows that judge."""

    train: np.ndarray
    held_out: np.ndarray


def n_folds_for(n_rows: int) -> int:
    """Five folds of few rows, so that little is lost to the fold left out; three of many."""
    if n_rows <= FEW_ROWS:
        return 5
    return 3


def check_groups(groups: Any, n: int) -> np.ndarray:
    """A number for each of n rows, equal where the groups are."""
    groups = column_or_1d(to_numpy(groups))
    if len(groups) != n:
        raise ValueError(f"groups has {len(groups)} entries for {n} rows of X; pass one for each.")
    return np.unique(groups, return_inverse=True)[1]


def group_folds(
    drawn: np.ndarray, labels: np.ndarray, n_folds: int, groups: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """The drawn rows to learn from and those held out, fold by fold, by `StratifiedGroupKFold`: the
    rows of a group stay together, with the classes in proportion as far as whole groups allow.
    """
    of_class = np.unique(labels[drawn], return_counts=True)[1]
    names, first, group = np.unique(groups[drawn], return_index=True, return_inverse=True)
    if len(names) < 2:
        raise ValueError("groups has one group; name at least two, so that one can be held out.")
    # groups count in the order in which they are drawn, so their names do not matter
    place = np.empty(len(names), int)
    place[np.argsort(first)] = np.arange(len(names))
    splitter = StratifiedGroupKFold(min(n_folds, len(names), max(2, int(of_class.max()))))
    with collected_warnings():  # of classes with fewer rows than folds
        splits = list(splitter.split(drawn, labels[drawn], place[group]))
    return [(drawn[train], drawn[held_out]) for train, held_out in splits]


def _stratified_group_folds(
    drawn: np.ndarray, labels: np.ndarray, n_folds: int, groups: np.ndarray
) -> list[Fold]:
    """`stratified_folds` of whole groups. A row of a class that the others lack judges nothing."""
    folds = []
    for train, held_out in group_folds(drawn, labels, n_folds, groups):
        known = held_out[np.isin(labels[held_out], labels[train])]
        if len(known):
            judging = evenly_by_class(known, labels)[: MOST_JUDGED // n_folds]
            folds.append(Fold(evenly_by_class(train, labels), judging))
    if not folds:
        raise ValueError(
            "groups has every class in one group only, so that no held-out row is of a class to learn "
            "from; leave groups out."
        )
    return folds


def stratified_folds(
    drawn: np.ndarray, labels: np.ndarray, n_folds: int, groups: np.ndarray | None = None
) -> list[Fold]:
    """Folds of the drawn rows, dealt out class by class: two folds differ by at most one row in
    size and in every class.

    The only row of a class has no similar row to be near and would count as wrong in any metric:
    it is learned from in every fold and never judged. Classes come in the order in which they
    are drawn, so their names do not matter. Rows of one of the ``groups`` are in one fold.
    """
    if groups is not None:
        return _stratified_group_folds(drawn, labels, n_folds, groups)
    _, first, of_class, size = np.unique(
        labels[drawn], return_index=True, return_inverse=True, return_counts=True
    )
    by_class = np.argsort(first[of_class], kind="stable")
    by_class = by_class[size[of_class[by_class]] > 1]
    n_folds = min(n_folds, len(by_class))
    fold_of = np.full(len(drawn), -1)
    fold_of[by_class] = np.arange(len(by_class)) % n_folds
    folds = []
    for f in range(n_folds):
        train = evenly_by_class(drawn[fold_of != f], labels)
        judging = evenly_by_class(drawn[fold_of == f], labels)[: MOST_JUDGED // n_folds]
        folds.append(Fold(train, judging))
    return folds


class CrossFitted(NamedTuple):
    """Folds, and for each the map L learned without its held-out rows: x goes to L'x. None
    stands for the identity.
    """

    folds: list[Fold]
    maps: Sequence[np.ndarray | None]

    @property
    def judged(self) -> np.ndarray:
        """The rows held out, fold by fold."""
        return np.concatenate([fold.held_out for fold in self.folds])


class JudgedMetric(NamedTuple):
    """A metric L L' of scale one, and which held-out rows it gets wrong."""

    L: np.ndarray
    wrong: np.ndarray


class Weighed(NamedTuple):
    """Weights of the candidates, the evidence, the blends learned without each fold, and which
    held-out rows those get wrong.
    """

    weights: dict[str, float]
    evidence: Evidence
    cross_fitted: CrossFitted
    wrong: np.ndarray


class LabelledFolds:
    """Labelled rows divided into folds, each of which judges the metrics learned without it."""

    def __init__(
        self,
        X: Any,
        labels: np.ndarray,
        n_neighbors: int | str,
        rng: np.random.RandomState,
        groups: np.ndarray | None = None,
    ) -> None:
        self.X = X
        self.labels = labels
        # only differences matter, and a constant feature must be exactly constant: a rounded
        # one has a tiny standard deviation that LDA would divide by
        self.host = to_numpy(X) - to_numpy(X)[:1]
        # a constant column says nothing, and would change what depends on the number of columns
        self.varying = np.flatnonzero(self.host.any(axis=0))
        rows = np.flatnonzero(labels >= 0)  # their own order must not change the folds
        drawn = rng.permutation(rows[canonical_order(self.host[rows], labels[rows])])
        self.seed = int(rng.randint(2**31 - 1))
        self.folds = stratified_folds(drawn, labels, n_folds_for(len(drawn)), groups)
        self.n_train = max(len(fold.train) for fold in self.folds)
        if n_neighbors == "auto":
            self.n_neighbors = self._best_vote()
        else:
            self.n_neighbors = int(n_neighbors)

    def training(self, fold: Fold, n_rows: int, candidate: CandidateMethod) -> tuple[Any, Any]:
        """The first rows to learn from, in the columns that vary, and their labels: tensors stay
        tensors for our own methods, others get host arrays.
        """
        rows = fold.train[:n_rows]
        if isinstance(candidate.estimator, MahalanobisMetric):
            X = self.X[rows]
        else:
            X = self.host[rows]
        if len(self.varying) < X.shape[1]:
            X = X[:, like(self.varying, X, namespace(X).int64)]
            if not is_torch(X):
                X = np.ascontiguousarray(X)  # sums round as without the constant columns
        return X, self.labels[rows]

    def points(self, fold: Fold) -> np.ndarray:
        """The rows as the metrics of this fold see them."""
        return self.host

    def lifted(self, L: np.ndarray) -> np.ndarray:
        """A map of the columns that vary as one of all columns."""
        full = np.zeros((self.host.shape[1], L.shape[1]))
        full[self.varying] = L
        return full

    def judge(self, L: np.ndarray, fold: Fold) -> JudgedMetric | None:
        """The metric L L' at scale one, and what it gets wrong; None for the zero metric."""
        Z = self.points(fold) @ L
        distances, labels = self._nearest(Z, fold, self.n_neighbors)
        centre = Z[fold.train].mean(axis=0)
        spread = _mean_square(Z[fold.train] - centre) + _mean_square(Z[fold.held_out] - centre)
        # to the neighbours, so that two metrics of one weight put neighbours equally far away; the
        # part to all rows keeps the scale from 0 where neighbours coincide
        scale = float(np.mean(distances**2)) + SPREAD * spread
        if not scale > 0:
            return None
        return JudgedMetric(L / scale**0.5, majority(labels) != self.labels[fold.held_out])

    def _nearest(
        self, Z: np.ndarray, fold: Fold, n_neighbors: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Distances and labels of the training rows nearest to each held-out row of Z."""
        train = fold.train
        labels = self.labels[train]
        # ties are broken by the rows before any metric, so alike for every metric
        keys = labelled_keys(self.host[train], labels)
        return nearest_labels(Z[train], labels, Z[fold.held_out], n_neighbors, keys)

    def _best_vote(self) -> int:
        """The k of `VOTES` with the fewest held-out errors of the Euclidean distance."""
        wrong = np.zeros(len(VOTES))
        for fold in self.folds:
            _, labels = self._nearest(self.host, fold, max(VOTES))
            truth = self.labels[fold.held_out]
            wrong += [np.sum(majority(labels[:, :k]) != truth) for k in VOTES]
        return VOTES[int(np.argmin(wrong))]

    def weigh(self, found: Mapping[str, list[JudgedMetric]]) -> "Weighed":
        """Weights of the candidates, the evidence for them and for their blend, and the blends
        learned without each fold.
        """
        every = range(len(self.folds))
        # the blend of each fold is weighted by the errors in the others, and so is its support
        by_others = [_weights(_wrong(found, self._others(f))) for f in every]
        metrics = {**found, BLEND: self._judge_blends(found, by_others)}
        wrong = _wrong(metrics, every)
        weights = _towards_euclidean(_weights(_wrong(found, every)), wrong)
        supported = []
        for f in every:
            wrong_elsewhere = _wrong(metrics, self._others(f))
            supported.append(_towards_euclidean(by_others[f], wrong_elsewhere))
        final = self._judge_blends(found, supported)
        wrong[BLEND] = np.concatenate([blend.wrong for blend in final])
        evidence = Evidence.of(wrong, self.n_neighbors)
        fitted = CrossFitted(self.folds, [blend.L for blend in final])
        return Weighed(weights, evidence, fitted, wrong[BLEND])

    def _others(self, f: int) -> list[int]:
        """The numbers of all folds but one."""
        return [g for g in range(len(self.folds)) if g != f]

    def _judge_blends(
        self, found: Mapping[str, list[JudgedMetric]], weights: Sequence[Mapping[str, float]]
    ) -> list[Any]:
        """The blends learned without each fold, by the weights of the fold, judged on it."""
        return [self._judge_blend(found, f, of_fold) for f, of_fold in enumerate(weights)]

    def _judge_blend(
        self, found: Mapping[str, list[JudgedMetric]], f: int, weights: Mapping[str, float]
    ) -> JudgedMetric | None:
        """The blend learned without fold f, judged on it."""
        if weights[BASELINE] == 1:
            return found[BASELINE][f]
        matrix: Any = 0
        for name, metrics in found.items():
            L = metrics[f].L
            matrix = matrix + weights[name] * L @ L.T
        return self.judge(spectral.factor(matrix), self.folds[f])


def _mean_square(rows: np.ndarray) -> float:
    """The mean squared length of rows."""
    return float(np.mean((rows**2).sum(axis=1)))


def _wrong(found: Mapping[str, list[JudgedMetric]], folds: Iterable[int]) -> dict[str, np.ndarray]:
    """What each candidate gets wrong in these folds."""
    wrong = {}
    for name, metrics in found.items():
        wrong[name] = np.concatenate([metrics[f].wrong for f in folds])
    return wrong


def excess(wrong: np.ndarray, other: np.ndarray) -> float:
    """By how many standard errors the first errs more than the other: only rows on which they
    disagree count, plus one, so that two or three rows prove little.
    """
    more = np.sum(wrong & ~other)
    less = np.sum(other & ~wrong)
    return float((more - less) / (more + less + 1) ** 0.5)


def _weights(wrong: Mapping[str, np.ndarray]) -> dict[str, float]:
    """exp(-SHARPNESS (excess over the best)) of each candidate, scaled to add up to 1."""
    best = min(wrong.values(), key=np.mean)
    weights = {name: np.exp(-SHARPNESS * excess(each, best)) for name, each in wrong.items()}
    total = sum(weights.values())
    return {name: float(weight / total) for name, weight in weights.items()}


def _towards_euclidean(
    weights: Mapping[str, float], wrong: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """The weights, shrunk towards the Euclidean distance as far as the blend's gain is in doubt."""
    needed = CAUTION + FEW_JUDGED / len(wrong[BASELINE])
    gain = excess(wrong[BASELINE], wrong[BLEND])
    support = float(1 / (1 + np.exp(SHARPNESS * (needed - gain))))
    if support < LEAST_SUPPORT:
        support = 0.0
    shrunk = {name: support * weight for name, weight in weights.items()}
    return {**shrunk, BASELINE: 1 - support * (1 - weights[BASELINE])}


def fit_linear_map(estimator: Any, X: Any, y: Any, seed: int) -> tuple[np.ndarray, Any]:
    """(L, certificate or None) of a clone of the estimator fitted to the rows."""
    L, fitted = fitted_with_map(estimator, X, y, seed, "classes")
    return L, getattr(fitted, "certificate_", None)


def fitted_with_map(
    estimator: Any, X: Any, y: Any, seed: int, target: str
) -> tuple[np.ndarray, Any]:
    """(L, a clone of the estimator fitted to the rows): transform(x) = L'x + a constant."""
    estimator = clone(estimator)
    # 0 stands for an estimator without this parameter; a seed that the user has set stays
    if estimator.get_params(deep=False).get("random_state", 0) is None:
        estimator.set_params(random_state=seed)
    told = {}
    if has_fit_parameter(estimator, "target"):
        told["target"] = target
    # held-out rows measure what a candidate is worth, however its solve ended
    with collected_warnings(), all_or_nothing():
        estimator.fit(X, y, **told)
    d = X.shape[1]
    sample = to_numpy(X[:10])
    # the origin shows the constant that a transform may add, the unit
    # vectors the columns of the map
    corners = np.concatenate([np.zeros((1, d)), np.eye(d), sample])
    mapped = to_numpy(estimator.transform(corners.astype(sample.dtype))).astype(np.float64)
    origin = mapped[0]
    L = mapped[1 : 1 + d] - origin
    # any estimator can be a candidate: rows show whether its map is the linear one of the corners
    found = mapped[1 + d :] - origin
    if not abs(found - sample @ L).max() <= LINEAR * abs(found).max():
        raise ValueError(f"{type(estimator).__name__} is not a linear map; pass one that is.")
    return L, estimator
