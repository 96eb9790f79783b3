"""Maximum-margin matrix factorisation of a synthetic rating matrix of the MovieLens-100K shape, beside soft-impute.

1,000 x 1,700 ratings of a rank-10 preference with noise, 6 % observed, thumbs up or down; as many again held out for the test.
Both methods have the nuclear norm as regulariser and choose its weight on a part of the observations: only the loss differs.

    python benchmarks/mmmf.py
"""

import time

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from conemetric import MaxMarginMatrixFactorization

SHAPE, RANK, SHARE, NOISE = (1000, 1700), 10, 0.06, 0.5


def ratings(rng):
    """Entries (k, 2) and signs (k,) for training, validation and test."""
    U, V = (rng.normal(size=(side, RANK)) for side in SHAPE)
    n_seen = int(SHARE * SHAPE[0] * SHAPE[1])
    chosen = rng.choice(SHAPE[0] * SHAPE[1], 2 * n_seen, replace=False)
    entries = np.stack([chosen // SHAPE[1], chosen % SHAPE[1]], 1)
    values = np.einsum("kr,kr->k", U[entries[:, 0]], V[entries[:, 1]]) / RANK**0.5
    signs = np.sign(values + NOISE * rng.normal(size=len(values)))
    return entries[:n_seen], signs[:n_seen], entries[n_seen:], signs[n_seen:]


def soft_impute(entries, signs, weight, n_iter=40, rank=60):
    """Factors of the minimiser of 1/2 ||observed residual||^2 + weight ||X||_* (Mazumder, Hastie & Tibshirani 2010)."""
    U, V = np.zeros((SHAPE[0], 1)), np.zeros((SHAPE[1], 1))
    for _ in range(n_iter):
        residual = signs - np.einsum("kr,kr->k", U[entries[:, 0]], V[entries[:, 1]])
        full = U @ V.T + sparse.csr_array((residual, tuple(entries.T)), shape=SHAPE).toarray()
        left, singular, right = randomized_svd(full, rank, n_iter=1, random_state=0)
        singular = np.clip(singular - weight, 0, None)
        U, V = left * singular**0.5, right.T * singular**0.5
    return U, V


def scores(X, signs):
    """Mean hinge loss and share of wrong signs."""
    return np.clip(1 - signs * X, 0, None).mean(), np.mean(np.sign(X) != signs)


def main():
    entries, signs, test, truth = ratings(np.random.default_rng(0))
    cut = int(0.8 * len(signs))
    MaxMarginMatrixFactorization(1.0, tol=0.1).fit(np.array([[1, -1], [-1, 1]]))  # compile before timing

    def mmmf(part, gamma):
        Y = sparse.coo_array((signs[part], tuple(entries[part].T)), shape=SHAPE)
        return MaxMarginMatrixFactorization(gamma, tol=1e-2).fit(Y)

    def imputed(part, weight):
        U, V = soft_impute(entries[part], signs[part], weight)
        return lambda where: np.einsum("kr,kr->k", U[where[:, 0]], V[where[:, 1]])

    train, validation = slice(0, cut), slice(cut, None)
    tried = {}
    for gamma in (10.0, 12.5, 15.0):
        tried[gamma] = scores(mmmf(train, gamma).decision_function(entries[validation]), signs[validation])[0]
    gamma = min(tried, key=tried.get)
    began = time.perf_counter()
    model = mmmf(slice(None), gamma)
    seconds = time.perf_counter() - began
    c = model.certificate_
    hinge, wrong = scores(model.decision_function(test), truth)
    print(f"MMMF, gamma {gamma:g}: {seconds:.1f} s, {len(signs)} ratings, rank {model.row_factors_.shape[1]}")
    print(f"  objective {c.primal:.1f} >= optimum >= {c.dual:.1f}, certified relative gap {c.relative_gap:.1e}")
    print(f"  test hinge {hinge:.4f}, wrong signs {100 * wrong:.2f} %")
    tried = {}
    for weight in (4.0, 6.0, 8.0):
        tried[weight] = scores(imputed(train, weight)(entries[validation]), signs[validation])[0]
    weight = min(tried, key=tried.get)
    began = time.perf_counter()
    predict = imputed(slice(None), weight)
    seconds = time.perf_counter() - began
    hinge, wrong = scores(predict(test), truth)
    print(f"soft-impute, weight {weight:g}: {seconds:.1f} s\n  test hinge {hinge:.4f}, wrong signs {100 * wrong:.2f} %")


if __name__ == "__main__":
    main()
