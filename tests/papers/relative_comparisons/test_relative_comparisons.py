"""RelativeComparisons as a user meets it: scikit-learn's conventions, every basis,
units, errors, both libraries.
"""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

from conemetric import RelativeComparisons, save_metric
from conemetric.core.arrays import to_numpy

A = np.random.default_rng(0).normal(size=(4, 6))
BASES = [None, "pca", A, rbf_kernel]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("scale", [1e-6, 0.7, 1e6])
@pytest.mark.parametrize("basis", [None, "pca", A])
def test_units_do_not_change_the_metric(iris, scale, basis):
    X, y = iris
    M, scaled = (
        RelativeComparisons(basis=basis, tol=1e-9).fit(c * X, y).get_mahalanobis_matrix()
        for c in (1, scale)
    )
    assert_allclose(scale**2 * scaled, M, atol=1e-4 * abs(M).max())


def test_weights_make_the_metric(iris):
    X, y = iris
    features = RelativeComparisons().fit(X, y)
    assert_allclose(
        features.get_mahalanobis_matrix(), np.diag(features.feature_weights_), atol=1e-12
    )
    assert features.basis_ is None
    mixed = RelativeComparisons(basis=A).fit(X, y)
    assert_allclose(mixed.get_mahalanobis_matrix(), A * mixed.feature_weights_ @ A.T, atol=1e-10)
    principal = RelativeComparisons(basis="pca").fit(X, y)
    assert_allclose(abs(principal.basis_), abs(PCA().fit(X).components_.T), atol=1e-10)
    M = principal.basis_ * principal.feature_weights_ @ principal.basis_.T
    assert_allclose(principal.get_mahalanobis_matrix(), M, atol=1e-10)


def test_redundant_directions_are_left_out(iris):
    X, y = iris
    metric = RelativeComparisons(basis="pca").fit(np.hstack([X, X[:, :2]]), y)
    assert metric.basis_.shape == (6, 4)


def test_certificate_is_that_of_the_stored_weights(iris):
    """Objective, multipliers and bound recomputed from the fitted attributes alone."""
    X, y = iris
    metric = RelativeComparisons(basis=A, tol=1e-8).fit(X, y)
    i, j, k = metric.triplets_.T
    Y, w = X @ A, metric.feature_weights_
    margins = ((Y[i] - Y[k]) ** 2 - (Y[i] - Y[j]) ** 2) @ w
    objective = (
        0.5 * np.linalg.norm(metric.get_mahalanobis_matrix()) ** 2
        + metric.C_ * np.maximum(0, 1 - margins).sum()
    )
    assert metric.objective_ == pytest.approx(objective, rel=1e-9)
    assert 0 <= metric.certificate_.relative_gap <= 1e-8
    assert metric.multipliers_.min() >= 0
    assert metric.multipliers_.max() <= metric.C_
    assert metric.certificate_.dual <= metric.multipliers_.sum()


def test_finds_the_informative_features():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 240)
    X = rng.normal(size=(240, 8))
    X[:, :2] += 4 * np.eye(3)[y][:, :2]
    X[:, 2:] *= 5
    metric = RelativeComparisons().fit(X, y)
    assert metric.feature_weights_[:2].min() > 5 * metric.feature_weights_[2:].max()


def rings(n, rng):
    y = rng.integers(0, 4, n)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 0.2 + 0.6 * y + 0.12 * rng.normal(size=n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def test_a_kernel_halves_the_error_on_concentric_circles():
    rng = np.random.default_rng(0)
    X, y = rings(120, rng)
    X_test, y_test = rings(1000, rng)

    def error(basis):
        metric = RelativeComparisons(basis=basis).fit(X, y)
        knn = KNeighborsClassifier(3).fit(metric.transform(X), y)
        return 1 - knn.score(metric.transform(X_test), y_test)

    assert error(partial(rbf_kernel, gamma=0.3)) < 0.5 * error(None)


def test_the_linear_kernel_is_the_basis_of_the_training_points(iris):
    X, y = iris[0][::3] - iris[0].mean(axis=0), iris[1][::3]
    by_kernel = RelativeComparisons(basis=linear_kernel, tol=1e-8).fit(X, y)
    by_basis = RelativeComparisons(basis=X.T, tol=1e-8).fit(X, y)
    assert_allclose(by_kernel.C_, by_basis.C_, rtol=1e-9)
    assert by_kernel.objective_ == pytest.approx(by_basis.objective_, rel=1e-7)
    pairs = np.stack([X[:5], X[30:35]], axis=1)
    assert_allclose(by_kernel.pair_distance(pairs), by_basis.pair_distance(pairs), rtol=0.02)


@pytest.mark.parametrize("basis", BASES, ids=["identity", "pca", "array", "kernel"])
def test_mahalanobis_surface(iris, asarray, basis):
    X, y = iris
    metric = RelativeComparisons(basis=basis).fit(asarray(X), y)
    Z = to_numpy(metric.transform(asarray(X)))
    pairs = np.stack([X[:5], X[60:65]], axis=1)
    distances = to_numpy(metric.pair_distance(asarray(pairs)))
    assert_allclose(distances, np.linalg.norm(Z[:5] - Z[60:65], axis=1), rtol=1e-8)
    assert metric.get_metric()(X[0], X[60]) == pytest.approx(distances[0])
    assert metric.certificate_.relative_gap <= metric.tol


@pytest.mark.parametrize("basis", BASES, ids=["identity", "pca", "array", "kernel"])
def test_libraries_and_precisions_agree(iris, asarray, dtype, basis):
    X, y = iris
    given = asarray(X.astype(dtype))
    metric = RelativeComparisons(basis=basis, tol=1e-6).fit(given, y)
    # in the same triplets: rounding to float32 makes and breaks ties
    reference = clone(metric).fit(X, triplets=to_numpy(metric.triplets_))
    for array in (
        metric.components_,
        metric.feature_weights_,
        metric.multipliers_,
        metric.transform(given),
    ):
        assert type(array) is type(given)
        assert array.dtype == given.dtype
    assert metric.objective_ == pytest.approx(reference.objective_, rel=1e-4)


def test_a_tensor_may_be_the_basis(iris, asarray):
    X, y = iris
    metric = RelativeComparisons(basis=asarray(A)).fit(asarray(X), y)
    assert_array_equal(to_numpy(metric.basis_), A)


def test_little_memory_changes_nothing(iris):
    X, y = iris
    stored = RelativeComparisons(tol=1e-8).fit(X, y)
    with config_context(working_memory=0):
        streamed = RelativeComparisons(tol=1e-8).fit(X, y)
    assert streamed.objective_ == pytest.approx(stored.objective_, rel=1e-8)


def test_same_seed_same_bits():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 60)), rng.integers(0, 2, 150)  # enough entries to be swept
    first, second = (RelativeComparisons(random_state=1).fit(X, y) for _ in range(2))
    assert first.history_["steps"][0] == 0
    assert_array_equal(first.components_, second.components_)


def test_triplets_from_labels_or_by_hand_are_the_same(iris):
    X, y = iris
    by_label = RelativeComparisons(random_state=0).fit(X, y)
    by_hand = RelativeComparisons(random_state=0).fit(X, triplets=by_label.triplets_.tolist())
    assert_array_equal(by_label.components_, by_hand.components_)


def test_contradictory_triplets_give_the_zero_metric(asarray):
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [5.0, 5.0]])
    T = np.array([[0, 1, 2], [0, 2, 1]])
    for basis in (None, rbf_kernel):
        metric = RelativeComparisons(basis=basis).fit(asarray(X), triplets=T)
        assert abs(to_numpy(metric.transform(asarray(X)))).max() == 0
        assert metric.objective_ == pytest.approx(2 * metric.C_)


def test_survives_pickle_and_clone(iris):
    metric = RelativeComparisons(basis=rbf_kernel, n_components=3).fit(*iris)
    again = pickle.loads(pickle.dumps(metric))
    assert_array_equal(again.transform(iris[0]), metric.transform(iris[0]))
    assert metric.transform(iris[0]).shape == (150, 3)
    assert clone(metric).get_params() == metric.get_params()


def test_a_kernel_has_no_matrix_and_no_file(iris, tmp_path):
    metric = RelativeComparisons(basis=rbf_kernel).fit(*iris)
    with pytest.raises(ValueError, match="no matrix in the space of X"):
        metric.get_mahalanobis_matrix()
    with pytest.raises(ValueError, match="no matrix in the space of X"):
        save_metric(tmp_path / "metric.safetensors", metric)
    assert RelativeComparisons().fit(*iris).get_mahalanobis_matrix().shape == (4, 4)


def test_not_converging_warns_and_keeps_the_certificate():
    X, y = load_wine(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        metric = RelativeComparisons(max_iter=4).fit(X, y)
    assert metric.n_iter_ == 4
    assert metric.tol < metric.certificate_.relative_gap < np.inf


def test_verbose_prints_progress(iris, capsys):
    RelativeComparisons(verbose=10).fit(*iris)
    assert "[RelativeComparisons]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (np.ones((3, 2)), r"basis has shape \(3, 2\)"),
        (np.full((4, 2), np.nan), "basis contains NaN"),
        ("ica", "basis"),
        (lambda X, Y: np.ones(3), r"basis returned an array of shape \(3,\)"),
        (lambda X, Y: np.full((len(X), len(Y)), np.inf), "finite"),
        (lambda X, Y: X[:, :1] - Y[:, 0], "not symmetric"),
    ],
)
def test_a_bad_basis_is_named(iris, basis, message):
    with pytest.raises(ValueError, match=message):
        RelativeComparisons(basis=basis).fit(*iris)


def test_points_that_coincide_have_no_scale():
    with pytest.raises(ValueError, match="coincides with its point"):
        RelativeComparisons(n_targets=1).fit(np.zeros((4, 2)), [0, 0, 1, 1])


@pytest.mark.parametrize("C", [1.0, "scale"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("basis", ["pca", None, np.eye(2), np.zeros((2, 2)), rbf_kernel])
def test_rows_that_coincide_are_refused_or_solved(basis, value, C, dtype):
    X = np.full((5, 2), value, dtype)
    metric = RelativeComparisons(C, basis=basis)
    if isinstance(basis, str) or C == "scale":
        with pytest.raises(ValueError, match="coincide"):
            metric.fit(X, triplets=[[0, 1, 2]])
        return
    with pytest.warns(UserWarning, match="learned is zero, so nearest neighbours"):
        metric.fit(X, triplets=[[0, 1, 2]])
    assert metric.certificate_.primal == C  # no metric can order them


def test_penalties_beyond_float32_are_refused_there():
    X = np.random.default_rng(0).normal(size=(20, 3))
    triplets = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    metric, weights = RelativeComparisons(1e37), [1.0, 1.0, 1e3]
    with pytest.raises(ValueError, match=r"C=1e\+37 .* 1e\+40, out of the range of float32"):
        metric.fit(X.astype(np.float32), triplets=triplets, sample_weight=weights)
    metric.fit(X, triplets=triplets, sample_weight=weights)
    assert np.isfinite(metric.multipliers_).all()
