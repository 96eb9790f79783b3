"""The metrics that a decision is tried in, each learned without each fold.

The rounds of one iteration compete on few rows, as long as they get better; only the best of them is
searched with all rows.
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice

import numpy as np

from ..automatic.folds import CrossFitted
from ..core.arrays import like, namespace, take, to_numpy
from ..engine.kernel_ridge import CITY_BLOCK, EUCLIDEAN
from ..papers.gradients.gradient_metric import gradient_rounds
from .held_out import Candidate, Map
from .rule import Training

PLAIN, LEARNED = "plain", "learned"
MOST_FEATURES = 200  # of rows for which city block distances are tried: each loops over them
MOST_FEATURES_FULL = 600  # of gradient metrics: a decomposition of that size in every round
N_ROUNDS = 4
MOST_WORK = 4e9  # rows^2 x targets x features of a fold's gradients: 0.1 s a round on one core
FEWEST_ROWS = 200  # they are learned from
# rows that a metric is learned from; for gradients of magic, phoneme, penbased 7,000 are no better
MAX_ROWS_FOR_METRIC = 4000
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
    found = [Candidate(PLAIN, unlearned, lambda r: None, (*EUCLIDEAN, *by_axes))]
    if fitted.maps:
        runs = [iter([L]) for L in fitted.maps]
        found.append(Candidate(LEARNED, runs, lambda r: final, EUCLIDEAN))
    learners: dict[str, partial[Iterator[np.ndarray]]] = {}
    if gradients and by_axes:
        learners["column weights"] = partial(_rounds, rows, kernel=CITY_BLOCK, blocks=blocks)
    if gradients and n_features <= MOST_FEATURES_FULL:
        learners |= {f"{each} gradient": partial(_rounds, rows, kernel=each) for each in EUCLIDEAN}
    for name, learn in learners.items():
        # all rows in the order in which they were drawn, any leading part of which represents the rest
        # what one fold holds out, the other learns from: two of them have every row
        drawn = np.concatenate([fold.train for fold in folds[:2]])
        every = partial(learn, drawn[np.sort(np.unique(drawn, return_index=True)[1])])
        last = partial(lambda every, r: next(islice(every(), r, None)), every)
        gradient_runs = [learn(fold.train) for fold in folds]
        found.append(Candidate(name, gradient_runs, last, (learn.keywords["kernel"],), N_ROUNDS))
    return found


def _rounds(
    rows: Training,
    chosen: np.ndarray,
    kernel: str,
    blocks: np.ndarray | None = None,
) -> Iterator[np.ndarray]:
    """The map after each round, learned from as many of the chosen rows as the work allows."""
    cost = rows.Y.shape[1] * rows.Z.shape[1]
    chosen = chosen[: int(np.clip((MOST_WORK / cost) ** 0.5, FEWEST_ROWS, MAX_ROWS_FOR_METRIC))]
    # one of two classes says all
    Y = rows.Y[chosen, 1:] if rows.Y.shape[1] == 2 else rows.Y[chosen]
    Z = like(take(rows.Z, chosen), rows.Z, namespace(rows.Z).float32)
    weights, diagonal = rows.weights[chosen], False if blocks is None else blocks
    learned = partial(gradient_rounds, n_rounds=N_ROUNDS, n_gradients=N_GRADIENTS)
    for each in learned(Z, Y, weights, kernel, diagonal=diagonal):
        L = to_numpy(each.L)
        yield np.diag(L) if L.ndim == 1 else L
