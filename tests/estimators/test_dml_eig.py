"""DMLEig and LMNNEig as estimators: contract, degenerate data, libraries, and the
paper's algorithm beside ours.
"""

import warnings

import numpy as np
import pytest
from instances import expected_failures
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from conemetric import DMLEig, LMNNEig
from conemetric.arrays import to_numpy

IRIS, LABELS = load_iris(return_X_y=True)


@parametrize_with_checks([DMLEig(), LMNNEig()], expected_failed_checks=expected_failures)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [DMLEig(), LMNNEig(0.3)], ids=str)
def test_libraries_and_precisions_agree(estimator, asarray, dtype):
    X, y = load_wine(return_X_y=True)
    reference = estimator.set_params(tol=1e-3).fit(X, y).objective_
    fitted = estimator.fit(asarray(X.astype(dtype)), y)
    assert fitted.objective_ == pytest.approx(reference, rel=2e-3)
    assert fitted.certificate_.relative_gap <= 1e-3
    assert to_numpy(fitted.components_).dtype == dtype
    assert fitted.transform(asarray(X.astype(dtype))).shape == (len(X), len(fitted.components_))


@pytest.mark.parametrize(
    ("estimator", "given", "meant_for"),
    [
        (DMLEig(), {"pairs": [[0, 1], [0, 60]], "similar": [True, False]}, "pairs"),
        (LMNNEig(), {"triplets": [[0, 1, 60]]}, "triplets"),
    ],
)
def test_labels_are_learned_from_with_a_word(estimator, given, meant_for):
    with pytest.warns(UserWarning, match=f"is meant for {meant_for} that are given"):
        estimator.fit(IRIS, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(IRIS, **given)


def test_labels_and_their_pairs_or_triplets_give_the_same_fit():
    labels = DMLEig(n_targets=2, n_impostors=1).fit(IRIS, LABELS)
    pairs = DMLEig().fit(IRIS, pairs=labels.pairs_, similar=labels.similar_)
    np.testing.assert_array_equal(labels.components_, pairs.components_)
    labels = LMNNEig(n_targets=2, n_impostors=1).fit(IRIS, LABELS)
    triplets = LMNNEig().fit(IRIS, triplets=labels.triplets_)
    np.testing.assert_array_equal(labels.components_, triplets.components_)


def test_a_dissimilar_pair_at_distance_zero_makes_the_optimum_zero(asarray):
    X, y = IRIS[::3].copy(), LABELS[::3].copy()
    pairs = DMLEig().fit(X, y)
    X = np.vstack([X, X[:1]])
    P, s = np.vstack([pairs.pairs_, [[0, len(X) - 1]]]), np.append(pairs.similar_, False)
    with pytest.warns(UserWarning, match="1 of the .* dissimilar pairs join coinciding points"):
        metric = DMLEig().fit(asarray(X), pairs=P, similar=s)
    assert metric.objective_ == 0
    assert metric.certificate_.dual == 0
    assert metric.certificate_.relative_gap == 0
    # any metric is optimal; the one of the other pairs is returned (its scatter differs
    # by one point more in the ridge)
    distances = to_numpy(metric.pair_distance(asarray(X[P[~s][:-1]])))
    assert distances.min() ** 2 == pytest.approx(pairs.objective_, rel=2e-3)
    with pytest.raises(ValueError, match="all 1 dissimilar pairs join coinciding points"):
        DMLEig().fit(X, pairs=[[0, 1], [0, len(X) - 1]], similar=[True, False])


@pytest.mark.parametrize("estimator", [DMLEig(), LMNNEig()], ids=str)
def test_more_features_than_points(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 30)), np.repeat([0, 1], 6)
    X[0] = X[1]
    fitted = estimator.fit(X, y)
    assert fitted.certificate_.relative_gap <= 1e-3
    assert np.isfinite(fitted.components_).all()


@pytest.mark.parametrize("estimator", [DMLEig(), LMNNEig()], ids=str)
def test_the_papers_algorithm_is_valid_but_slower(estimator):
    ours = estimator.fit(IRIS, LABELS)
    ours_primal, ours_dual, iterations = (
        ours.certificate_.primal,
        ours.certificate_.dual,
        ours.n_iter_,
    )
    with pytest.warns(ConvergenceWarning, match="proximal-point"):
        paper = estimator.set_params(solver="frank-wolfe", mu=1e-4, max_iter=300).fit(IRIS, LABELS)
    assert iterations < 100
    assert paper.certificate_.relative_gap > 1e-3
    # the bounds of one hold for the point of the other
    assert paper.certificate_.primal >= ours_dual
    assert paper.certificate_.dual <= ours_primal
    history = paper.history_
    assert history["relative_gap"][-1] < history["relative_gap"][20]


def test_rows_of_the_metric_are_cut_to_n_components():
    full = LMNNEig().fit(IRIS, LABELS)
    cut = LMNNEig(n_components=1).fit(IRIS, LABELS)
    np.testing.assert_array_equal(cut.components_, full.components_[:1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pairs": [[0, 1]]}, "pairs without similar"),
        ({"y": LABELS, "similar": [True]}, "similar without pairs"),
        ({"pairs": [[0, 1], [1, 2]], "similar": [True, True]}, "2 of 2 pairs similar"),
        ({"pairs": [[0, 1], [1, 2]], "similar": [True]}, "one value for each of the 2 pairs"),
        ({"pairs": [[0, 1], [1, 999]], "similar": [True, False]}, "index out of range"),
        ({}, "pairs and similar"),
    ],
)
def test_bad_pairs_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DMLEig().fit(IRIS, **arguments)


@pytest.mark.parametrize(
    "parameter", [{"gamma": 0.0}, {"gamma": 1.0}, {"ridge": 0}, {"solver": "adam"}, {"mu": 0.0}]
)
def test_bad_parameters_are_refused(parameter):
    with pytest.raises(ValueError, match=next(iter(parameter))):
        LMNNEig(**parameter).fit(IRIS, LABELS)
