"""Held-out scores are those of a refit without each fold, by scikit-learn."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor

from conemetric.decisions.held_out import HeldOut, NeighborVote, search_kernels, search_votes
from conemetric.estimators.folds import CrossFitted, Fold
from conemetric.neighbours import row_keys
from conemetric.solvers.kernel_ridge import KERNELS, KernelSetting

N, D = 40, 4


def drawn(seed, asarray=np.asarray):
    """Rows, targets, weights, folds with a map each, and the rows as judged."""
    rng = np.random.default_rng(seed)
    X, Y, weights = rng.normal(size=(N, D)), rng.normal(size=(N, 2)), rng.uniform(0.2, 3, N)
    order = rng.permutation(N)
    folds = [Fold(order[np.arange(N) % 3 != f], order[f::3]) for f in range(3)]
    fitted = CrossFitted(folds, [rng.normal(size=(D, rank)) for rank in (D, 2, 1)])
    return X, Y, weights, fitted, HeldOut(asarray(X), Y, weights, fitted, row_keys(X))


def mapped(X, fitted):
    for fold, L in zip(fitted.folds, fitted.maps, strict=True):
        yield fold, X[fold.train] @ L, X[fold.held_out] @ L


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("width", [0.25, 4.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel, width, ridge, asarray, seed):
    X, Y, weights, fitted, rows = drawn(seed, asarray)
    expected = []
    for fold, Z, held_out in mapped(X, fitted):
        power = 1 if kernel == "city block" else 2
        scale = (abs(Z[:, None] - Z) ** power).sum(2).mean()
        K, across = (
            KernelSetting(kernel, width, ridge).values(
                (abs(A[:, None] - Z) ** power).sum(2) / scale
            )
            for A in (Z, held_out)
        )
        offset = np.average(Y[fold.train], axis=0, weights=weights[fold.train])
        peer = KernelRidge(alpha=ridge, kernel="precomputed")
        peer.fit(K, Y[fold.train] - offset, sample_weight=weights[fold.train])
        expected.append(peer.predict(across) + offset)
    found = rows.kernel_scores(KernelSetting(kernel, width, ridge))
    # kernels of held-out rows are in float32
    np.testing.assert_allclose(found, np.concatenate(expected), atol=2e-3)


@pytest.mark.parametrize("votes", ["uniform", "distance"])
@pytest.mark.parametrize("k", [1, 5, 15])
def test_votes(k, votes, asarray, seed):
    X, Y, _, fitted, _ = drawn(seed)
    expected = [
        KNeighborsRegressor(k, weights=votes).fit(Z, Y[fold.train]).predict(held_out)
        for fold, Z, held_out in mapped(X, fitted)
    ]
    rows = HeldOut(asarray(X), Y, np.ones(N), fitted, row_keys(X))
    found = rows.vote_scores(NeighborVote(k, votes))
    np.testing.assert_allclose(found, np.concatenate(expected), atol=1e-7)


def test_judged_rows_are_those_of_the_folds(seed):
    *_, fitted, _ = drawn(seed)
    assert np.array_equal(fitted.judged, np.concatenate([fold.held_out for fold in fitted.folds]))
    assert sorted(fitted.judged) == list(range(N))


def test_weights_multiply_votes():
    distances, Y = np.array([[1.0, 2.0]]), np.array([[[1.0], [0.0]]])
    for kind, expected in (("uniform", 3 / 4), ("distance", 6 / 7)):
        found = NeighborVote(2, kind).scores(distances, Y, np.array([[3.0, 1.0]]))
        assert found[0, 0] == pytest.approx(expected, abs=1e-8)


def test_rows_that_coincide_count_alone():
    shares = NeighborVote(3, "distance").shares(np.array([[0.0, 0.0, 1.0]]), np.ones((1, 3)))
    np.testing.assert_allclose(shares, [[0.5, 0.5, 0.0]], atol=1e-8)


@pytest.mark.parametrize("classes", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_of_equal_votes_the_class_of_the_nearest_row_wins(classes):
    Y = np.eye(3)[list(classes)][None]
    scores = NeighborVote(3).scores(np.array([[1.0, 1.5, 2.0]]), Y, np.ones((1, 3)))
    assert scores.argmax() == classes[0]
    # the third class has the nearest row, but fewer votes than the tied others
    Y = np.eye(3)[[2, 1, 0, 0, 1]][None]
    scores = NeighborVote(5).scores(np.arange(1.0, 6.0)[None], Y, np.ones((1, 5)))
    assert scores.argmax() == 1


def test_searches_return_the_least_loss_they_report(seed):
    _, Y, _, fitted, rows = drawn(seed)
    truth = Y[fitted.judged]

    def loss(scores):
        return float(((scores - truth) ** 2).mean())

    for search in (search_votes, search_kernels):
        trial = search("plain", rows, loss)
        assert trial.loss == loss(trial.scores)
        if search is search_votes:
            others = [NeighborVote(k, w) for k in (1, 3, 9) for w in ("uniform", "distance")]
            assert trial.loss <= min(loss(rows.vote_scores(rule)) for rule in others)
        else:
            others = [KernelSetting(k, 1.0, ridge) for k in KERNELS for ridge in (0.1, 1.0)]
            assert trial.loss <= min(loss(rows.kernel_scores(each)) for each in others)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_singular_system_gives_no_scores(kernel, seed):
    *_, rows = drawn(seed)
    assert np.isnan(rows.kernel_scores(KernelSetting(kernel, 1.0, -2.0 * N))).all()
