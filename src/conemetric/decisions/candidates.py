"""The metrics that a decision is tried in, each learned without each fold.

The rounds of one iteration compete on few rows, as long as they get better; only the best of them is
searched with all rows.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..automatic.folds import CrossFitted
from ..core.arrays import Array, like, namespace, take, to_numpy
from ..engine.distance_kernels import CITY_BLOCK, EUCLIDEAN
from ..papers.gradients.gradient_metric import gradient_rounds
from .held_out import Candidate, Map
from .rule import Training

BASELINE, LEARNED = "Euclidean", "learned"
MOST_FEATURES = 200  # of rows for which city block distances are tried: each loops over them
MOST_FEATURES_FULL = 600  # of gradient metrics: a decomposition of that size in every round
N_ROUNDS = 4
MOST_WORK = 4e9  # rows^2 x targets x features of a fold's gradients: 0.1 s a round on one core
FEWEST_ROWS = 200  # they are learned from
# Rows that a metric is learned from; for gradients of magic, phoneme, penbased 7,000 are no better.
MAX_ROWS_FOR_METRIC = 4000
# Of these, rows that its rounds learn from while they compete, and all but the last one afterwards: on 15
# tables 2,000 err as 4,000 do, in seven tenths of the processor time.
MAX_ROWS_OF_ROUNDS = 2000
N_GRADIENTS = 1000  # rows at which the gradients of a fit are taken for their mean


def candidates_for(
    rows: Training,
    fitted: CrossFitted,
    final: Map,
    blocks: np.ndarray | None,
    gradients: bool,
) -> list[Candidate]:
    """The candidates, the Euclidean metric first: in the folds of ``fitted``, with the metric
    learned in each, if any was (``final`` from all rows), and those learned from ``gradients``.
    Features of one column, by its number in ``blocks``, share a weight.
    """
    n_features, folds = rows.Z.shape[1], fitted.folds
    by_axes = (CITY_BLOCK,) if n_features <= MOST_FEATURES else ()
    unlearned = [iter([None]) for _ in folds]
    found = [Candidate(BASELINE, unlearned, lambda r: None, (*EUCLIDEAN, *by_axes))]
    if fitted.maps:
        runs = [iter([L]) for L in fitted.maps]
        found.append(Candidate(LEARNED, runs, lambda r: final, EUCLIDEAN))
    learners: dict[str, _Gradients] = {}
    if gradients and by_axes:
        learners["column weights"] = _Gradients(rows, CITY_BLOCK, blocks)
    if gradients and n_features <= MOST_FEATURES_FULL:
        learners |= {f"{each} gradient": _Gradients(rows, each) for each in EUCLIDEAN}
    for name, learner in learners.items():
        # all rows in the order in which they were drawn, any leading part of which represents the rest
        # what one fold holds out, the other learns from: two of them have every row
        drawn = np.concatenate([fold.train for fold in folds[:2]])
        every = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
        gradient_runs = [learner.maps(fold.train) for fold in folds]
        last = partial(learner.last, every)
        found.append(Candidate(name, gradient_runs, last, (learner.kernel,), N_ROUNDS))
    return found


class _Gradients(NamedTuple):
    """What learns a metric, round after round, from the gradients of a kernel fit."""

    rows: Training
    kernel: str
    blocks: np.ndarray | None = None

    def maps(self, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """The map after each round."""
        for L in self._rounds(chosen[:MAX_ROWS_OF_ROUNDS]):
            yield _as_map(L)

    def last(self, chosen: np.ndarray, r: int) -> np.ndarray:
        """The map after round ``r``, which learns from more rows than those before it."""
        L = None
        if r:
            L = next(islice(self._rounds(chosen[:MAX_ROWS_OF_ROUNDS]), r - 1, None))
        return _as_map(next(self._rounds(chosen[:MAX_ROWS_FOR_METRIC], L)))

    def _rounds(self, chosen: np.ndarray, start: Array | None = None) -> Iterator[Array]:
        """The metric after each round, learned from as many of the rows as the work allows."""
        rows = self.rows
        cost = rows.Y.shape[1] * rows.Z.shape[1]
        chosen = chosen[: max(FEWEST_ROWS, int((MOST_WORK / cost) ** 0.5))]
        # one of two classes says all
        Y = rows.Y[chosen, 1:] if rows.Y.shape[1] == 2 else rows.Y[chosen]
        Z = like(take(rows.Z, chosen), rows.Z, namespace(rows.Z).float32)
        rounds = gradient_rounds(
            Z,
            Y,
            rows.weights[chosen],
            self.kernel,
            n_rounds=N_ROUNDS,
            diagonal=False if self.blocks is None else self.blocks,
            n_gradients=N_GRADIENTS,
            start=start,
        )
        for each in rounds:
            yield each.L


def _as_map(L: Array) -> np.ndarray:
    """The matrix of a metric, or of its weights of the columns."""
    L = to_numpy(L)
    return np.diag(L) if L.ndim == 1 else L
