"""What each decision rule would have decided for held-out rows, and the search for the best.

Fold by fold, a metric learned from the other folds maps all rows, and a rule learned from the
other folds in that metric scores the rows of the fold. So neither has seen the rows that judge
them. Leave-one-out in the metrics of the other folds would cost ten times as much, one
factorisation of all rows for every setting and fold, and chose no better (docs/defaults.md).

The kernels are searched on a grid of widths and ridges with few rows; then the best settings are
tried on all rows, and from there the search moves to better neighbours on the grid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from ..core.arrays import like, namespace, take, to_numpy
from ..estimators.folds import CrossFitted
from ..neighbours import nearest
from ..solvers.kernel_ridge import CITY_BLOCK, EUCLIDEAN, KERNELS, KernelSetting, ridge_solve

__all__ = ["HeldOut", "NeighborVote", "Rule", "Trial", "mapped", "search_kernels", "search_votes"]

# Relative to the mean squared distance; powers of two for the Gaussian kernel, of four for the
# Laplacian, which depends on the root. Relative to the mean distance for the city block.
WIDTHS = {
    "gaussian": tuple(2.0**-i for i in range(-2, 6)),
    "laplacian": tuple(4.0**-i for i in range(-2, 5)),
    CITY_BLOCK: tuple(2.0**-i for i in range(-5, 3)),
}
MOST_FEATURES = 100  # of rows for which city block distances are tried: each loops over them
RIDGES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
COARSE = 2  # every other width and ridge is tried on few rows
FEW_ROWS = 300  # rows of each fold in the coarse search: a factorisation takes milliseconds
MOST_ROWS = 2000  # rows of each fold that a rule learns from in the search
N_TRIED = 4  # settings of the coarse search that are tried on all rows
N_HELD = 3  # widths whose kernel matrices are held: the best and its neighbours, 72 MB each at most
NEIGHBOURS = (1, 3, 5, 9, 15)
VOTE_WEIGHTS = ("uniform", "distance")
TIE = 1e-9  # by which the nearest row counts more, the next half of that and so on


@dataclass(frozen=True)
class NeighborVote:
    """The mean over the ``n_neighbors`` nearest rows, weighted alike or by 1 / distance."""

    n_neighbors: int
    weights: str = "uniform"

    def __str__(self) -> str:
        return f"{self.n_neighbors} nearest neighbours, {self.weights} weights"

    def shares(self, distances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """How much each of the nearest rows (m, k) counts; rows that coincide count alone. Of
        classes with equal votes the one of the nearest row wins.
        """
        if self.weights == "distance":
            at_zero = distances == 0
            inverse = np.divide(1.0, distances, where=~at_zero, out=np.zeros_like(distances))
            weights = weights * np.where(at_zero.any(1, keepdims=True), at_zero, inverse)
        weights = weights * (1 + TIE * 0.5 ** np.arange(weights.shape[1]))
        return weights / weights.sum(1, keepdims=True)

    def scores(self, distances: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Mean of the targets Y (m, max k, n_targets) of the nearest rows."""
        k = self.n_neighbors
        return np.einsum("ij,ijt->it", self.shares(distances[:, :k], weights[:, :k]), Y[:, :k])


Rule = KernelSetting | NeighborVote
Loss = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Trial:
    """A rule in a metric, and the scores (n_judged, n_targets) it gave held-out rows."""

    metric: str
    rule: Rule
    scores: np.ndarray
    loss: float

    @classmethod
    def judged(cls, metric: str, rule: Rule, scores: np.ndarray, loss: Loss) -> "Trial":
        value = loss(scores)
        return cls(metric, rule, scores, np.inf if np.isnan(value) else value)

    def __str__(self) -> str:
        return f"{self.metric} metric, {self.rule}"


class MappedFold:
    """A fold in its metric: rows, and the nearest ones."""

    def __init__(self, train: np.ndarray, Z: Any, held_out: Any, keys: np.ndarray) -> None:
        self.train, self._Z, self._held_out = train, Z, held_out
        # nearest training rows of each held-out row, by place in ``train``, and how far they are
        self.near, self.distances = (
            to_numpy(part)
            for part in nearest(held_out, Z, min(max(NEIGHBOURS), len(train)), keys[train])
        )
        self._relative: dict[Callable, tuple[Any, Any]] = {}

    def relative(self, kernel: str) -> tuple[Any, Any]:
        """What the kernel is a function of, relative to its mean: among the training rows, and
        from held-out to training rows.
        """
        distances, mean, *_ = KERNELS[kernel]
        if distances not in self._relative:
            Z, scale = self._Z, mean(self._Z)
            self._relative[distances] = tuple(
                like(distances(A, Z) / scale, A, namespace(A).float32) for A in (Z, self._held_out)
            )
        return self._relative[distances]


def mapped(X: Any, L: np.ndarray | None) -> Any:
    """The rows in the metric L L', None for the plain one."""
    return X if L is None else X @ like(L, X)


class HeldOut:
    """Rows held out from metrics and rules: what each rule would have decided for them."""

    def __init__(
        self,
        X: Any,
        Y: np.ndarray,
        weights: np.ndarray,
        fitted: CrossFitted,
        keys: np.ndarray,
        kernels: Sequence[str] = EUCLIDEAN,
        most_rows: int | None = MOST_ROWS,
    ) -> None:
        self.Y, self.weights = Y, weights
        self.folds: list[MappedFold] = []
        self._kernel_matrices = lru_cache(N_HELD)(partial(_kernel_matrices, self.folds))
        # axes mean something in the plain metric only
        by_axes = X.shape[1] <= MOST_FEATURES and all(L is None for L in fitted.maps)
        self.kernels = [name for name in kernels if by_axes or name in EUCLIDEAN]
        for fold, L in zip(*fitted, strict=True):
            train = fold.train[:most_rows]
            Z, held_out = (mapped(take(X, rows), L) for rows in (train, fold.held_out))
            self.folds.append(MappedFold(train, Z, held_out, keys))

    @property
    def most_neighbours(self) -> int:
        """Neighbours that every held-out row has, of those that votes may take."""
        return min(fold.near.shape[1] for fold in self.folds)

    def kernel_scores(self, setting: KernelSetting, n_rows: int | None = None) -> np.ndarray:
        """Scores of the held-out rows; NaN where a system is singular."""
        scores = []
        matrices = self._kernel_matrices(setting.kernel, setting.width, n_rows)
        for fold, (K, across) in zip(self.folds, matrices, strict=True):
            train = fold.train[:n_rows]
            weights, Y = self.weights[train], self.Y[train]
            offset = np.average(Y, axis=0, weights=weights)
            a = ridge_solve(K, like(setting.ridge / weights, K), like(Y - offset, K))
            nothing = np.full((len(across), Y.shape[1]), np.nan)
            scores.append(nothing if a is None else to_numpy(across @ a) + offset)
        return np.concatenate(scores)

    def vote_scores(self, rule: NeighborVote) -> np.ndarray:
        """Scores of the held-out rows by a vote."""
        return np.concatenate(
            [
                rule.scores(
                    fold.distances,
                    self.Y[fold.train][fold.near],
                    self.weights[fold.train][fold.near],
                )
                for fold in self.folds
            ]
        )


def _kernel_matrices(folds, kernel, width, n_rows):
    """Of each fold: kernel values among the training rows, and from held-out rows to them."""
    values, kept = KernelSetting(kernel, width, 1.0).values, slice(0, n_rows)
    distances = (fold.relative(kernel) for fold in folds)
    return [(values(among[kept, kept]), values(across[:, kept])) for among, across in distances]


def search_votes(metric: str, rows: HeldOut, loss: Loss) -> Trial:
    """The best number of neighbours and weights."""
    ks = [k for k in NEIGHBOURS if k <= rows.most_neighbours]
    rules = [NeighborVote(k, w) for k in ks for w in VOTE_WEIGHTS]
    trials = (Trial.judged(metric, rule, rows.vote_scores(rule), loss) for rule in rules)
    return min(trials, key=attrgetter("loss"))


def search_kernels(metric: str, rows: HeldOut, loss: Loss) -> Trial:
    """The best kernel, width and ridge."""

    def trials(settings, n_rows=None):
        for each in settings:
            yield Trial.judged(metric, each, rows.kernel_scores(each, n_rows), loss)

    if max(len(fold.train) for fold in rows.folds) <= FEW_ROWS:
        return min(trials(_grid(rows.kernels, 1)), key=attrgetter("loss"))
    coarse = {trial.rule: trial.loss for trial in trials(_grid(rows.kernels, COARSE), FEW_ROWS)}
    following = sorted(coarse, key=coarse.__getitem__)[:N_TRIED]
    best, tried = min(trials(following), key=attrgetter("loss")), set(following)
    while following := [each for each in _around(best.rule) if each not in tried]:
        best = min([best, *trials(following)], key=attrgetter("loss"))
        tried |= set(following)
    return best


def _grid(kernels, step):
    return [
        KernelSetting(kernel, width, ridge)
        for kernel in kernels
        for width in WIDTHS[kernel][::step]
        for ridge in RIDGES[::step]
    ]


def _around(setting):
    """Neighbours on the grid: the next widths and ridges of the same kernel."""
    widths, ridges = WIDTHS[setting.kernel], RIDGES
    i, j = widths.index(setting.width), ridges.index(setting.ridge)
    return [
        KernelSetting(setting.kernel, widths[a], ridges[b])
        for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))
        if 0 <= a < len(widths) and 0 <= b < len(ridges)
    ]
