"""The certificate is about what is stored: its value is that of ``components_``, rounded,
of the rank kept, and cut to ``n_components``.
"""

import warnings

import numpy as np
import pytest
from cases import pairs_of
from learners import NO_PROGRAM, SEVERAL_FITS, check_complete
from recomputed import recomputed_objective, scatter_trace, trace
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    RelativeComparisons,
)
from conemetric.core.arrays import to_numpy

CASES = [
    FrobMetric(),
    FrobMetric(loss="logistic"),
    BoostMetric(v=1.0, loss="logistic", solver="corrective"),
    BoostMetric(v=0.05, max_iter=30),
    BoostMetric(v=0.05, loss="hinge"),
    DMLEig(),
    LMNNEig(),
    RelativeComparisons(random_state=0),
    RelativeComparisons(basis=np.random.default_rng(0).normal(size=(4, 7)), random_state=0),
    RelativeComparisons(basis="pca", random_state=0),
    RelativeComparisons(basis=rbf_kernel, random_state=0),
]
EMBEDDING = {"NuMax": "test_embeddings_and_factors"}
check_complete(CASES, "labels", without=NO_PROGRAM | SEVERAL_FITS | EMBEDDING)
CASES_OF_ANY_C = [
    FrobMetric(max_iter=20),
    FrobMetric(max_iter=20, loss="squared_hinge"),
    RelativeComparisons(random_state=0),
    RelativeComparisons(basis="pca", random_state=0),
    BoostMetric(max_iter=8, loss="logistic"),
    BoostMetric(max_iter=8, loss="exponential"),
    LMNNEig(max_iter=8),
    DMLEig(max_iter=8),
]
check_complete(CASES_OF_ANY_C, "tuples")


def name(case):
    changed = [str(getattr(case, part)) for part in ("loss", "basis") if hasattr(case, part)]
    return "-".join([type(case).__name__, *(word[:12].split("\n")[0] for word in changed)])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::4], y[::4]


@pytest.mark.cases(6)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_primal_value_is_that_of_the_stored_metric(case, n_components, iris, asarray, dtype):
    X, y = asarray(iris[0].astype(dtype)), iris[1]
    metric = clone(case).set_params(n_components=n_components).fit(X, y)
    if n_components is not None:
        assert len(metric.components_) == n_components
    value = recomputed_objective(metric, X)
    kernel = callable(getattr(case, "basis", None))  # computes features in the precision of X
    rounding = 1e-6 if kernel and dtype == np.float32 else 1e-9
    assert metric.certificate_.primal == pytest.approx(value, rel=rounding, abs=1e-12)
    assert metric.certificate_.dual <= value + 1e-9 * abs(value) or len(metric.components_) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n_components", [None, 1])
@pytest.mark.parametrize("case", [DMLEig(), BoostMetric(loss="hinge")], ids=name)
def test_a_fixed_trace_is_missed_by_as_much_as_the_certificate_says(case, n_components, iris):
    X, y = iris[0].astype(np.float32), iris[1]
    X[0] *= 30  # an outlier, whose direction is stored with fewer digits
    metric = clone(case).set_params(n_components=n_components).fit(X, y)
    traced = scatter_trace if isinstance(case, DMLEig) else trace
    missed = abs(traced(metric) - 1)
    assert 0 < missed < 1e-4
    assert metric.certificate_.violation == pytest.approx(missed, rel=1e-3)
    assert metric.certificate_.primal == pytest.approx(recomputed_objective(metric, X), rel=1e-9)


@pytest.mark.filterwarnings("ignore")
@pairs_of(
    case=CASES_OF_ANY_C,
    shape=((30, 4), (12, 20), (30, 6)),  # long, wide, of low rank
    C=(1.0, 1e6, 1e8),
    shift=(0.0, 10.0),
    asarray=True,
    dtype=True,
)
def test_the_primal_value_is_that_of_the_stored_metric_whatever_C(
    case, shape, C, shift, seed, asarray, dtype
):
    rng = np.random.default_rng(seed)
    n = shape[0]
    X = rng.normal(size=shape)
    if shape == (30, 6):
        X[:, 3:] = X[:, :3] @ rng.normal(size=(3, 3))
    X, y = asarray((X + shift).astype(dtype)), np.arange(n) % 2
    metric = clone(case)
    if isinstance(metric, BoostMetric):
        metric.set_params(v=1 / C)
    elif isinstance(metric, LMNNEig):
        metric.set_params(gamma=0.5 / C)
    elif not isinstance(metric, DMLEig):
        metric.set_params(C=C)
    if isinstance(metric, DMLEig):
        metric.fit(X, y)
    else:
        metric.fit(X, triplets=np.array([rng.permutation(n)[:3] for _ in range(40)]))
    if getattr(metric, "similar_scatter_", 0) is None:
        return  # of more features than rows, no scatter is kept to recompute with
    value = recomputed_objective(metric, X)
    rounding = 1e-9 if dtype == np.float64 else 1e-5  # what is stored is not quite in the span
    assert metric.certificate_.primal == pytest.approx(value, rel=rounding, abs=1e-12)


def test_a_second_pass_is_certified_over_its_own_points(iris, asarray, dtype):
    X, y = asarray(iris[0].astype(dtype)), iris[1]
    parameters = {"v": 1.0, "loss": "logistic", "solver": "corrective"}
    metric = BoostMetric(n_passes=2, **parameters).fit(X, y)
    assert metric.n_passes_ == 2
    triplets = to_numpy(metric.triplets_)
    (first,) = metric._passes[1][0].maps
    again = BoostMetric(**parameters, tol=metric.tol).fit(
        to_numpy(X) @ to_numpy(first.matrix), triplets=triplets
    )
    assert metric.certificate_.primal == pytest.approx(again.certificate_.primal, rel=2e-3)
    loss = np.logaddexp(0, -margins_of(metric, X)).sum()
    inner = to_numpy(first.matrix).astype(np.float64)
    C = to_numpy(metric.components_).astype(np.float64)
    trace = (np.linalg.lstsq(inner, C.T)[0] ** 2).sum()
    assert metric.certificate_.primal == pytest.approx(loss + trace, rel=1e-6)


def margins_of(metric, X):
    i, j, k = to_numpy(metric.triplets_).T
    mapped = to_numpy(X).astype(np.float64) @ to_numpy(metric.components_).astype(np.float64).T
    far, near = ((mapped[i] - mapped[other]) ** 2 for other in (k, j))
    return far.sum(1) - near.sum(1)


@pytest.mark.parametrize("case", [FrobMetric(), LMNNEig(), DMLEig()], ids=name)
def test_a_cut_says_what_it_costs(case):
    rng = np.random.default_rng(0)
    y = np.arange(45) % 3
    data = rng.normal(size=(45, 4)) + 2 * np.eye(3, 4)[y], y
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)  # it was asked for
        whole = clone(case).fit(*data).certificate_
        cut = clone(case).set_params(n_components=1).fit(*data).certificate_
        none = clone(case).set_params(n_components=4).fit(*data).certificate_
    assert whole.status == "converged" and none == whole
    assert cut.status == "truncated"
    assert cut.dual == whole.dual and cut.gap > whole.gap


@pytest.mark.parametrize("scale", [1e-9, 1e-8])
def test_directions_of_a_tiny_feature_are_kept(seed, scale):
    rng = np.random.default_rng(seed)
    y = np.arange(30) % 2
    Z = np.c_[scale * rng.normal(size=30), rng.normal(size=30) + y]
    metric = DMLEig().fit(Z, y)
    assert metric.certificate_.status == "converged"
    a, b = metric.pairs_[~metric.similar_].T
    mapped = metric.transform(Z)
    closest = ((mapped[a] - mapped[b]) ** 2).sum(1).min()
    assert closest == pytest.approx(-metric.certificate_.primal, rel=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_embeddings_and_factors(iris):
    X = iris[0]
    for unfolding in (MaximumVarianceUnfolding(), MaximumVarianceUnfolding(n_landmarks=20)):
        fitted = unfolding.set_params(random_state=0).fit(X)
        assert fitted.certificate_.primal == pytest.approx(recomputed_objective(fitted, X))
    Y = np.sign(X - X.mean(0))
    Y[np.random.default_rng(0).random(Y.shape) < 0.3] = np.nan
    fitted = MaxMarginMatrixFactorization().fit(Y)
    assert fitted.certificate_.primal == pytest.approx(recomputed_objective(fitted, Y), rel=1e-4)
    embedding = NuMax(0.3).fit(X)
    assert embedding.certificate_.primal == pytest.approx(recomputed_objective(embedding, X))
