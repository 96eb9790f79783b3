"""MaxMarginMatrixFactorization as an estimator: what it recovers, its input and its errors."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from conemetric import MaxMarginMatrixFactorization


def ratings(n_levels, seed=0):
    """A rank-one matrix of levels 1, 2, ..., and half its entries."""
    rng = np.random.default_rng(seed)
    X = np.outer(rng.normal(size=25), rng.normal(size=20))
    cuts = np.quantile(X, np.arange(1, n_levels) / n_levels)
    return 1 + np.digitize(X, cuts), rng.uniform(size=X.shape) < 0.6


@pytest.mark.parametrize("n_levels", [2, 4])
def test_unseen_entries_are_predicted(n_levels):
    Y, seen = ratings(n_levels)
    model = MaxMarginMatrixFactorization(0.5, tol=1e-2).fit(np.where(seen, Y, np.nan))
    hidden = np.argwhere(~seen)
    errors = np.abs(model.predict(hidden) - Y[~seen])
    guess = np.abs(np.median(Y[seen]) - Y[~seen])
    assert errors.mean() < 0.5 * guess.mean()
    np.testing.assert_array_equal(model.levels_, np.arange(1, n_levels + 1))
    assert model.row_factors_.shape[1] == model.column_factors_.shape[1] <= 20


def test_dense_with_nan_and_sparse_agree():
    Y, seen = ratings(2)
    rows, columns = np.nonzero(seen)
    # level 0 is stored and counts as seen
    stored = sparse.coo_array((Y[seen] - 1, (rows, columns)), shape=Y.shape)
    model = MaxMarginMatrixFactorization(0.5)
    dense = clone(model).fit(np.where(seen, Y - 1.0, np.nan))
    for form in (stored, stored.tocsr(), stored.tocsc()):
        np.testing.assert_allclose(clone(model).fit(form).objective_, dense.objective_, rtol=1e-12)


def test_signs_and_levels_agree_and_gamma_above_the_norm_gives_zero():
    Y, seen = ratings(2)
    signs = np.where(seen, 2.0 * Y - 3, np.nan)
    model = MaxMarginMatrixFactorization(0.5).fit(signs)
    assert (
        model.objective_
        == MaxMarginMatrixFactorization(0.5).fit(np.where(seen, Y, np.nan)).objective_
    )
    norm = np.linalg.norm(np.nan_to_num(signs), 2)
    zero = MaxMarginMatrixFactorization(1.01 * norm).fit(signs)
    assert zero.objective_ == seen.sum()
    assert not zero.decision_function([[0, 0]]).any()


def test_thresholds_shift_the_matrix():
    Y, seen = ratings(3)
    data = np.where(seen, Y, np.nan)
    assert MaxMarginMatrixFactorization().fit(data).thresholds_.tolist() == [-1, 1]
    model = MaxMarginMatrixFactorization(0.3, thresholds=[0.0, 2.0]).fit(data)
    assert model.predict(np.argwhere(seen)).mean() == pytest.approx(Y[seen].mean(), abs=0.3)


@pytest.mark.parametrize(
    ("Y", "parameters", "message"),
    [
        (np.full((2, 2), np.nan), {}, "no observed entry"),
        (np.ones((2, 2)), {}, "1 distinct value"),
        (np.arange(100.0).reshape(10, 10), {}, "100 distinct value.*bin"),
        (np.ones(3), {}, "Expected 2D array"),
        (np.array([[1.0, np.inf]]), {}, "infinity"),
        (np.array([[1.0, -1.0]]), {"thresholds": [0.0, 1.0]}, "1 increasing number"),
        (np.array([[1.0, 2.0, 3.0]]), {"thresholds": [1.0, 1.0]}, "2 increasing number"),
        (np.array([[1.0, -1.0]]), {"thresholds": [np.nan]}, "1 increasing number"),
        (np.array([[1.0, -1.0]]), {"gamma": 0.0}, "gamma"),
    ],
)
def test_bad_input_is_refused(Y, parameters, message):
    with pytest.raises(ValueError, match=message):
        MaxMarginMatrixFactorization(**parameters).fit(Y)


@pytest.mark.parametrize("entries", [[[0, 99]], [[-1, 0]], [[0.5, 0]], [0, 1]])
def test_entries_outside_the_matrix_are_refused(entries):
    model = MaxMarginMatrixFactorization().fit(np.array([[1, -1], [-1, 1]]))
    with pytest.raises(ValueError, match="entries"):
        model.predict(entries)


def test_must_be_fitted_first():
    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(MaxMarginMatrixFactorization(), method)([[0, 0]])
