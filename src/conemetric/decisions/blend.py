"""A blend of decisions, weighted by held-out rows (docs/mathematics).

The settings of each kind and the weights were chosen on the same rows, so the scores that a blend is
judged by are crossed: those of each fold come from settings and weights chosen on the other folds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from ..engine.certificate import Bounds, Certificate, Status
from .rule import Judge, Trial

LEAST_WEIGHT = 0.05  # a part that weighs less is left out: it costs time and decides little
TOL = 1e-9  # relative gap that counts as solved


@dataclass(frozen=True)
class Blended:
    """Trials, the heaviest first, their weights with a certificate, and crossed held-out scores."""

    trials: tuple[Trial, ...]
    weights: tuple[float, ...]
    certificate: Certificate
    scores: np.ndarray


def simplex_weights(residuals: np.ndarray) -> tuple[np.ndarray, Certificate]:
    """Weights on the simplex that minimise the norm of the mixture of columns; the certificate."""
    gram = residuals.T @ residuals
    # so that the products are comparable with the row of ones below, whatever the units of y
    unit = float(np.trace(gram)) / len(gram) or 1.0
    gram = gram / unit
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T
    # the last row penalises a sum other than 1; that fixes only the length of u, and its direction
    # is that of the optimum on the simplex
    u, _ = nnls(np.vstack([root, np.ones(len(gram))]), np.r_[np.zeros(len(gram)), 1.0])
    w = u / u.sum()
    product = gram @ w
    primal = float(w @ product)
    # Frank and Wolfe's gap: the linear model, of gradient 2 G w, is least at a vertex
    gap = max(0.0, 2 * (primal - float(product.min())))
    status = Status.CONVERGED if gap <= TOL * max(primal, TOL) else Status.STALLED
    return w, Certificate.from_bounds(Bounds(unit * primal, unit * (primal - gap), 0.0), status)


def blend_trials(
    contests: Sequence[Sequence[Trial]], judge: Judge, held_out: Sequence[np.ndarray], n_parts: int
) -> Blended:
    """The best trial of each contest (trials of one kind, the best first), weighed against the best
    of the others: at most ``n_parts``. ``held_out`` numbers the rows held out, fold by fold.
    """
    trials, weights, certificate = _weighed([contest[0] for contest in contests], judge, n_parts)
    scores = np.empty_like(trials[0].scores)
    judged = np.concatenate(held_out)
    ends = np.cumsum([len(rows) for rows in held_out])
    for rows, end in zip(held_out, ends, strict=True):
        # by row rather than by place: with several partitions into folds, a row is held out several
        # times, and none of its copies may choose what judges it
        fold = slice(end - len(rows), end)
        others = ~np.isin(judged, rows)
        # a single fold: there are no other rows to choose by
        if not others.any():
            scores[fold] = _mixture(trials, weights)[fold]
            continue
        elsewhere = judge.among(others)
        best = [min(c, key=lambda t: elsewhere(t.scores[others])) for c in contests]
        crossed, crossed_weights, _ = _weighed(best, elsewhere, n_parts, others)
        scores[fold] = _mixture(crossed, crossed_weights)[fold]
    return Blended(tuple(trials), tuple(map(float, weights)), certificate, scores)


def _weighed(
    trials: Sequence[Trial], judge: Judge, n_parts: int, rows: slice | np.ndarray = slice(None)
) -> tuple[list[Trial], np.ndarray, Certificate]:
    """The trials that weigh something, the heaviest first, their weights and certificate."""
    if n_parts == 1:
        trials = [min(trials, key=lambda t: judge(t.scores[rows]))]
    else:
        # the scores of a singular system are NaN, and cannot be mixed
        trials = [t for t in trials if np.isfinite(t.scores).all()] or trials[:1]
    root = np.sqrt(judge.weights)[:, None]
    while True:
        residuals = [(root * (judge.Y - t.scores[rows])).ravel() for t in trials]
        w, certificate = simplex_weights(np.stack(residuals, axis=1))
        order = np.argsort(-w, kind="stable")
        # without a part the others weigh more, so the weights are found again until all parts stay
        kept = [k for k in order[:n_parts] if w[k] >= min(LEAST_WEIGHT, w.max())]
        trials = [trials[k] for k in kept]
        if len(kept) == np.count_nonzero(w):
            return trials, w[kept], certificate


def _mixture(trials: Sequence[Trial], weights: np.ndarray) -> np.ndarray:
    return sum(w * t.scores for w, t in zip(weights, trials, strict=True))
