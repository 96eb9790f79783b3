"""Test error of maximum-margin matrix factorisation, beside soft-impute, on synthetic ratings.

The matrix has the shape of MovieLens-100K: 1,000 x 1,700 ratings of a rank-10 preference with noise, 6 %
observed, thumbs up or down; as many again held out for the test. Both methods have the nuclear norm as
regulariser, so only the loss differs (hinge here, squares there), and both are tuned alike, by the
hinge loss on a fifth of the observations: the weight over the same grid, relative to the spectral norm
of the observations from which on either answers zero; and once more the weight together with a factor
that stretches the answer, because both losses shrink it below the hinge's margin of one, squares more
so.

    python -m benchmarks mmmf

Data: simulated
Minutes: 10 (estimated)
"""

import time

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from conemetric import MaxMarginMatrixFactorization

from ..command import command_parser
from ..measuring import timed

SHAPE = (1000, 1700)
RANK = 10  # of the preference
SHARE = 0.06  # of the ratings that are observed
NOISE = 0.5  # its standard deviation; that of the preference is 1
WEIGHTS = 0.9 ** np.arange(1, 21)
STRETCHES = 1.25 ** np.arange(13)
CHANGE = 1e-3  # relative change of X at which soft-impute stops
MOST_STEPS = 100  # of soft-impute
MOST_RANK = 60  # of soft-impute's X


def ratings(rng):
    """Entries (k, 2) and signs (k,) seen, entries and signs of the test."""
    U, V = (rng.normal(size=(side, RANK)) for side in SHAPE)
    n_seen = int(SHARE * SHAPE[0] * SHAPE[1])
    chosen = rng.choice(SHAPE[0] * SHAPE[1], 2 * n_seen, replace=False)
    entries = np.stack([chosen // SHAPE[1], chosen % SHAPE[1]], 1)
    values = np.einsum("kr,kr->k", U[entries[:, 0]], V[entries[:, 1]]) / RANK**0.5
    signs = np.sign(values + NOISE * rng.normal(size=len(values)))
    return entries[:n_seen], signs[:n_seen], entries[n_seen:], signs[n_seen:]


def observed(entries, signs):
    return sparse.csr_array((signs, tuple(entries.T)), shape=SHAPE)


def mmmf(entries, signs, share, start=None):
    """The fitted model at ``share`` of the weight that makes X = 0 optimal."""
    Y = observed(entries, signs)
    return MaxMarginMatrixFactorization(share * sparse.linalg.norm(Y, 2), tol=1e-2).fit(Y)


class SoftImpute:
    """Minimiser of 1/2 ||observed residual||^2 + weight ||X||_* (Mazumder, Hastie &
    Tibshirani 2010); ``share`` as above.
    """

    def __init__(self, entries, signs, share, start=None):
        weight = share * sparse.linalg.norm(observed(entries, signs), 2)
        if start is None:
            self.U = np.zeros((SHAPE[0], 1))
            self.V = np.zeros((SHAPE[1], 1))
        else:
            self.U = start.U
            self.V = start.V
        for _ in range(MOST_STEPS):
            before = self.U @ self.V.T
            full = before + observed(entries, signs - self.decision_function(entries)).toarray()
            left, singular, right = randomized_svd(full, MOST_RANK, n_iter=1, random_state=0)
            kept = singular > weight
            root = np.sqrt(singular[kept] - weight)
            self.U = left[:, kept] * root
            self.V = right[kept].T * root
            if np.linalg.norm(self.U @ self.V.T - before) <= CHANGE * np.linalg.norm(before):
                break

    def decision_function(self, entries):
        return np.einsum("kr,kr->k", self.U[entries[:, 0]], self.V[entries[:, 1]])


def hinge(X, signs):
    return np.clip(1 - signs * X, 0, None).mean()


def validation_losses(method, entries, signs):
    """Per weight, down to past the best, the hinge loss on a fifth of the observations
    at each stretch (inf: not tried).
    """
    cut = int(0.8 * len(signs))
    model = None
    losses = np.full((len(WEIGHTS), len(STRETCHES)), np.inf)
    for i, share in enumerate(WEIGHTS):
        model = method(entries[:cut], signs[:cut], share, model)
        X = model.decision_function(entries[cut:])
        losses[i] = [hinge(stretch * X, signs[cut:]) for stretch in STRETCHES]
        if losses[i].min() > losses.min() and losses[i, 0] > losses[:, 0].min():
            break
    return losses


def main(arguments):
    command_parser(__doc__, __name__).parse_args(arguments)
    entries, signs, test, truth = ratings(np.random.default_rng(0))
    # compile before timing
    MaxMarginMatrixFactorization(1.0, tol=0.1).fit(np.array([[1, -1], [-1, 1]]))
    began = time.perf_counter()
    for method in (mmmf, SoftImpute):
        losses = validation_losses(method, entries, signs)
        for label, stretches in (("weight tuned", 1), ("weight and stretch tuned", len(STRETCHES))):
            i, j = np.unravel_index(losses[:, :stretches].argmin(), (len(WEIGHTS), stretches))
            seconds, _, model = timed(method, entries, signs, WEIGHTS[i])
            X = STRETCHES[j] * model.decision_function(test)
            print(
                f"{method.__name__}, {label}: {WEIGHTS[i]:.3f} of the largest weight, stretch "
                f"{STRETCHES[j]:.2f}: "
                f"test hinge {hinge(X, truth):.4f}, wrong signs "
                f"{100 * np.mean(np.sign(X) != truth):.2f} %, {seconds:.1f} s",
                flush=True,
            )
            if method is mmmf:
                c = model.certificate_
                print(
                    f"  rank {model.row_factors_.shape[1]}, objective {c.primal:.1f} >= optimum "
                    f">= {c.dual:.1f}, "
                    f"certified relative gap {c.relative_gap:.1e}"
                )
    print(f"{len(signs)} ratings, all in all {time.perf_counter() - began:.0f} s")
