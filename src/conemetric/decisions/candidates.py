"""The metrics that a decision is tried in, each learned without each fold.

Metrics of one family (the rounds of one iteration) compete on few rows; only the best of each family
is searched with all of them.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from ..core.arrays import like, namespace, take, to_numpy
from ..estimators.folds import CrossFitted, Fold
from ..estimators.gradient_metric import gradient_rounds
from ..solvers.kernel_ridge import CITY_BLOCK, EUCLIDEAN
from .held_out import Candidate

__all__ = ["LEARNED", "PLAIN", "families"]

PLAIN, LEARNED = "plain", "learned"
MOST_FEATURES = 200  # of rows for which city block distances are tried: each loops over them
MOST_FEATURES_FULL = 600  # of gradient metrics: a decomposition of that size in every round
N_ROUNDS = 4
MOST_WORK = 4e9  # rows^2 x targets x features of a fold's gradients: 0.1 s a round on one core
FEWEST_ROWS = 200  # they are learned from


def families(
    X: Any,
    Y: np.ndarray,
    weights: np.ndarray,
    fitted: CrossFitted,
    final: Callable[[], np.ndarray | None],
    blocks: np.ndarray | None,
    gradients: bool,
) -> list[list[Candidate]]:
    """The candidates, family by family, the plain metric first.

    Parameters
    ----------
    X, Y, weights
        Scaled rows, targets (n, n_targets) and weights.
    fitted : CrossFitted
        Folds, and the learned metric of each; no maps if none was learned.
    final : callable
        The learned metric of all rows.
    blocks : array (n_features,) or None
        The number of the column of each feature: those of one column share a weight.
    gradients : bool
        Whether to learn metrics from gradients.
    """
    by_axes = (CITY_BLOCK,) if X.shape[1] <= MOST_FEATURES else ()
    nothing = [None] * len(fitted.folds)
    found = [[Candidate(PLAIN, nothing, lambda: None, (*EUCLIDEAN, *by_axes))]]
    if fitted.maps:
        found.append([Candidate(LEARNED, fitted.maps, final, EUCLIDEAN)])
    if gradients:
        learn = partial(_rounds, X, Y, weights)
        if by_axes:
            by_column = partial(learn, kernel=CITY_BLOCK, blocks=blocks)
            found.append(_family("column weights, round", by_column, fitted.folds, CITY_BLOCK))
        if X.shape[1] <= MOST_FEATURES_FULL:
            for kernel in EUCLIDEAN:
                name = f"{kernel} gradient, round"
                found.append(_family(name, partial(learn, kernel=kernel), fitted.folds, kernel))
    return found


def _family(name: str, learn: Callable, folds: Sequence[Fold], kernel: str) -> list[Candidate]:
    by_fold = [learn(fold.train) for fold in folds]
    every = cache(partial(learn, None))
    return [
        Candidate(
            f"{name} {r + 1}",
            [rounds[r] for rounds in by_fold],
            partial(_of_round, every, r),
            (kernel,),
            votes=False,
        )
        for r in range(min(map(len, by_fold)))
    ]


def _of_round(every, r):
    return every()[r]


def _rounds(X, Y, weights, rows, kernel, blocks=None):
    """The map after each round, learned from as many of these rows as the work allows."""
    rows = np.arange(len(X)) if rows is None else rows
    cost = Y.shape[1] * X.shape[1]
    rows = rows[: max(FEWEST_ROWS, int((MOST_WORK / cost) ** 0.5))]
    Y = Y[rows, 1:] if Y.shape[1] == 2 else Y[rows]  # one of two classes says all
    Z, diagonal = like(take(X, rows), X, namespace(X).float32), False if blocks is None else blocks
    found = gradient_rounds(Z, Y, weights[rows], kernel, n_rounds=N_ROUNDS, diagonal=diagonal)
    maps = (to_numpy(each.L) for each in found)
    return [np.diag(L) if L.ndim == 1 else L for L in maps]
