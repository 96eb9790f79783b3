"""``kernel=`` of every estimator that learns from labels, pairs or triplets, and the transformer."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from learners import NO_PROGRAM, check_complete
from numpy.testing import assert_allclose
from recomputed import coordinates_by_scipy, recomputed_objective
from scipy.linalg import sqrtm
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris, make_circles

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    KernelCoordinates,
    LMNNEig,
    RelativeComparisons,
    Status,
    frobmetric_path,
)
from conemetric.core.arrays import to_numpy
from conemetric.estimators.kernel_coordinates import FarFromLandmarksWarning

ESTIMATORS = [
    FrobMetric(),
    FrobMetric(prior="identity", loss="logistic"),
    FrobMetricCV(Cs=2, cv=2, random_state=0),
    BoostMetric(),
    BoostMetric(n_passes=2, loss="exponential", max_iter=20),
    DMLEig(),
    LMNNEig(),
    RelativeComparisons(random_state=0),
]
check_complete(ESTIMATORS, "kernel", without=NO_PROGRAM)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
pytestmark = [
    pytest.mark.filterwarnings("ignore:(DMLEig|LMNNEig) is meant"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::3], y[::3]


@pytest.mark.cases(6)
@every_estimator
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_distances_are_those_of_the_stored_coordinates(estimator, kernel, iris, dtype):
    X, y = iris[0].astype(dtype), iris[1]
    metric = clone(estimator).set_params(kernel=kernel).fit(X, y)
    expected = coordinates_by_scipy(metric, X.astype(float)) @ to_numpy(metric.components_).T
    tolerance = 1e-3 if np.dtype(dtype) == np.float32 else 1e-7
    size = abs(expected).max()
    assert_allclose(metric.transform(X), expected, atol=tolerance * size)
    pairs = X[[[0, 1], [5, 40], [3, 3]]]
    distances = np.linalg.norm(np.diff(expected[[[0, 1], [5, 40], [3, 3]]], axis=1)[:, 0], axis=1)
    assert_allclose(metric.pair_distance(pairs), distances, atol=2 * tolerance * size)
    assert_allclose(metric.get_metric()(X[0], X[1]), distances[0], atol=2 * tolerance * size)
    assert len(metric.get_feature_names_out()) == len(metric.components_)


@every_estimator
@pytest.mark.costly
def test_the_fit_is_that_to_the_coordinates(estimator, iris):
    X, y = iris
    metric = clone(estimator).set_params(kernel="gaussian").fit(X, y)
    Z = KernelCoordinates().fit_transform(X)
    linear = clone(estimator).fit(Z, y)
    assert np.array_equal(metric.components_, linear.components_)
    assert metric.certificate_ == linear.certificate_


@pytest.mark.cases(6)
@every_estimator
def test_what_has_no_meaning_names_what_to_do(estimator, iris):
    metric = clone(estimator).set_params(kernel="gaussian").fit(*iris)
    with pytest.raises(ValueError, match="use transform"):
        metric.get_mahalanobis_matrix()


@every_estimator
@pytest.mark.costly
def test_a_later_fit_without_a_kernel_is_linear_again(estimator, iris):
    metric = clone(estimator).set_params(kernel="laplacian").fit(*iris)
    again = metric.set_params(kernel=None).fit(*iris)
    assert again.kernel_coordinates_ is None
    assert np.array_equal(again.components_, clone(estimator).fit(*iris).components_)


@pytest.mark.cases(6)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(
    "estimator",
    [FrobMetric(), BoostMetric(), LMNNEig(max_iter=100), RelativeComparisons(random_state=0)],
    ids=lambda each: type(each).__name__,
)
def test_certificates_are_true_of_what_is_stored(estimator, seed, monkeypatch):
    """Moved, scaled and repeated rows: the objective anew, in float64, and above the bound."""
    rng = np.random.default_rng(seed)
    X, y = make_circles(60, noise=0.1, factor=0.5, random_state=seed)
    X = 10.0 ** rng.integers(-3, 4) * (X + rng.integers(-50, 50))
    repeated = rng.integers(0, 60, 15)
    X, y = np.concatenate([X, X[repeated]]), np.concatenate([y, y[repeated]])
    kernel = ("gaussian", "laplacian")[seed % 2]
    metric = clone(estimator).set_params(kernel=kernel).fit(X, y)
    monkeypatch.setattr(metric, "_features", lambda rows: coordinates_by_scipy(metric, rows))
    objective, certificate = recomputed_objective(metric, X), metric.certificate_
    assert_allclose(objective, certificate.primal, rtol=1e-4)
    assert certificate.dual <= objective * (1 + 1e-4)
    assert certificate.relative_gap <= 1e-3 or certificate.status is Status.MAX_ITER


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.costly
def test_the_optimum_is_that_over_all_metrics_of_the_kernels_space(kernel, seed):
    """A conic solver over the kernel matrix itself: M = sum_ij S_ij e_i e_j' in an orthonormal basis
    of the span of the rows in the kernel's space, in which row i is column i of K^(1/2).
    """
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(14, 2)), np.arange(14) % 2
    coordinates = KernelCoordinates(kernel, n_components=None)
    metric = FrobMetric(5.0, kernel=coordinates, tol=1e-6, n_targets=2).fit(X, y)
    assert metric.kernel_coordinates_.exact_
    width = metric.kernel_coordinates_.width_
    if kernel == "gaussian":
        K = np.exp(-cdist(X, X, "sqeuclidean") / (2 * width**2))
    else:
        K = np.exp(-cdist(X, X, "cityblock") / width)
    root = np.real(sqrtm(K))
    S = cp.Variable((14, 14), PSD=True)
    i, j, k = metric.triplets_.T
    far, near = root[i] - root[k], root[i] - root[j]
    margins = [cp.quad_form(a, S) - cp.quad_form(b, S) for a, b in zip(far, near, strict=True)]
    loss = cp.sum(cp.pos(1 - cp.hstack(margins)))
    objective = 0.5 * cp.sum_squares(S) + 5.0 / len(i) * loss
    optimum = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    assert_allclose(metric.objective_, optimum, rtol=1e-5)
    assert metric.certificate_.dual <= optimum * (1 + 1e-6)


def test_circles_are_separated(asarray):
    X, y = make_circles(200, noise=0.08, factor=0.6, random_state=0)
    new, truth = make_circles(200, noise=0.08, factor=0.6, random_state=1)
    metric = FrobMetric(kernel="gaussian").fit(asarray(X), y)
    Z, mapped = to_numpy(metric.transform(asarray(X))), to_numpy(metric.transform(asarray(new)))
    centres = np.stack([Z[y == c].mean(axis=0) for c in (0, 1)])
    assert np.mean(cdist(mapped, centres).argmin(axis=1) == truth) > 0.95


def test_pairs_triplets_and_tuples(iris):
    X, y = iris
    rng = np.random.default_rng(0)
    index = rng.integers(0, len(X), (80, 2))
    index = index[index[:, 0] != index[:, 1]]
    similar = y[index[:, 0]] == y[index[:, 1]]
    for estimator in (FrobMetric(kernel="gaussian"), DMLEig(kernel="gaussian")):
        metric = clone(estimator).fit(X, pairs=index, similar=similar)
        signs = np.where(similar, 1, -1)
        assert np.mean(metric.predict(X[index]) == signs) > 0.8
    of_tuples = DMLEig(kernel="gaussian").fit(X[index], signs)
    assert of_tuples.score(X[index], signs) > 0.8
    triplets = FrobMetric().fit(X, y).triplets_
    metric = FrobMetric(kernel="laplacian").fit(X, triplets=triplets)
    assert FrobMetric(kernel="laplacian").fit(X[triplets]).score(X[triplets]) > 0.9
    assert metric.score(X[triplets]) > 0.9


def test_frames_sparse_rows_pickles_and_paths(iris):
    X, y = iris
    metric = FrobMetric(kernel="gaussian").fit(X, y)
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = FrobMetric(kernel="gaussian").set_output(transform="pandas").fit(frame, y)
    assert named.transform(frame).columns[0] == "frobmetric0"
    assert np.array_equal(named.transform(frame).to_numpy(), metric.transform(X))
    sparse = FrobMetric(kernel="gaussian").fit(csr_array(X), y)
    assert_allclose(sparse.transform(csr_array(X)), metric.transform(X), atol=1e-8)
    again = pickle.loads(pickle.dumps(metric))
    assert np.array_equal(again.transform(X), metric.transform(X))
    path = frobmetric_path(X, y, Cs=[1.0, 10.0], kernel="gaussian")
    assert_allclose(
        path[0].transform(X), FrobMetric(1.0, kernel="gaussian").fit(X, y).transform(X), atol=0.05
    )


def test_dask_collections(iris):
    da = pytest.importorskip("dask.array")
    X, y = iris
    blocks, labels = da.from_array(X, chunks=(20, 4)), da.from_array(y, chunks=20)
    metric = FrobMetric(kernel="gaussian").fit(blocks, labels)
    assert metric.n_features_in_ == 4
    in_memory = FrobMetric(kernel="gaussian").fit(X, y)
    assert_allclose(metric.objective_, in_memory.objective_, rtol=2e-3)
    mapped = metric.transform(blocks)
    assert_allclose(mapped.compute(), metric.transform(X), atol=1e-9)
    with pytest.raises(ValueError, match="not supported with tuples"):
        FrobMetric(kernel="gaussian").fit(da.from_array(X[:48].reshape(16, 3, 4)))


def test_parameters_that_do_not_go_with_a_kernel(iris):
    X, y = iris
    with pytest.raises(ValueError, match="prior is a metric of the columns"):
        FrobMetric(kernel="gaussian", prior=np.eye(4)).fit(X, y)
    few = KernelCoordinates(n_components=3)
    with pytest.raises(ValueError, match="n_components=4 is more than the 3 coordinates"):
        FrobMetric(kernel=few, n_components=4).fit(X, y)
    with pytest.raises(ValueError, match="kernel"):
        FrobMetric(kernel="polynomial").fit(X, y)


def test_rows_far_from_all_landmarks_warn(iris):
    X, y = iris
    metric = FrobMetric(kernel="gaussian").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.transform(X + 0.1)
    with pytest.warns(FarFromLandmarksWarning, match="2 of 3 rows are so far"):
        metric.transform(np.concatenate([X[:1], X[:2] + 100]))


# ---- the transformer


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_coordinates_do_not_depend_on_units_order_and_copies(kernel, iris):
    X = iris[0]
    Z = KernelCoordinates(kernel, n_components=10).fit(X).transform(X)
    moved = 1000.0 * X + 7
    order = np.random.default_rng(0).permutation(len(X))
    fitted_to = np.concatenate([moved[order], moved[:20]])
    coordinates = KernelCoordinates(kernel, n_components=10).fit(fitted_to)
    assert_allclose(coordinates.transform(moved), Z, atol=1e-6)


def test_tensors_stay_tensors_and_precision_is_kept(iris, asarray, dtype):
    X = asarray(iris[0].astype(dtype))
    Z = KernelCoordinates(n_components=6).fit_transform(X)
    assert type(Z) is type(X)
    assert Z.dtype == X.dtype
    expected = KernelCoordinates(n_components=6).fit_transform(iris[0])
    assert_allclose(to_numpy(Z), expected, atol=1e-3 if np.dtype(dtype) == np.float32 else 1e-7)


def test_fewer_landmarks_than_rows(iris):
    X = iris[0]
    few = KernelCoordinates(landmarks=9, random_state=0).fit(X)
    assert few.landmarks_.shape == (9, 4)
    assert not few.exact_
    assert KernelCoordinates(n_components=None).fit(X).exact_
    assert not KernelCoordinates(n_components=3).fit(X).exact_
