"""Units: X in millimetres or in kilometres gives the same metric up to scale, and numbers
that no float can work with are refused in words.
"""

import warnings

import numpy as np
import pytest
from learners import NO_PROGRAM, check_complete
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    RelativeComparisons,
    TableEncoder,
    frobmetric_path,
    solve_frobenius_sdp,
)

FREE_OF_UNITS = {
    "FrobMetric": FrobMetric(),
    "FrobMetric, logistic": FrobMetric(loss="logistic"),
    "FrobMetric, prior": FrobMetric(prior="identity"),
    "FrobMetricCV": FrobMetricCV(Cs=2, cv=2, random_state=0),
    "BoostMetric": BoostMetric(),
    "BoostMetric, hinge": BoostMetric(loss="hinge"),
    "DMLEig": DMLEig(),
    "LMNNEig": LMNNEig(),
    "RelativeComparisons": RelativeComparisons(random_state=0),
    "RelativeComparisons, pca": RelativeComparisons(basis="pca", random_state=0),
    "NuMax": NuMax(0.3),
    "NuMax, classes": NuMax(0.6, class_aware=True),
    "MaximumVarianceUnfolding": MaximumVarianceUnfolding(),
    "MaximumVarianceUnfolding, equal": MaximumVarianceUnfolding(3, constraint="equal"),
}
check_complete(FREE_OF_UNITS, "labels", without=NO_PROGRAM)


@pytest.fixture(params=FREE_OF_UNITS.values(), ids=FREE_OF_UNITS)
def estimator(request):
    return clone(request.param)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::4], y[::4]


def learned(estimator, X, y):
    """The matrix that a fit finds, of norm one, and how it ended."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The neighbour graph falls")
        estimator.fit(X, y)
    unfolds = isinstance(estimator, MaximumVarianceUnfolding)
    M = estimator.kernel_matrix() if unfolds else estimator.get_mahalanobis_matrix()
    M = M / abs(M).max()
    return M / np.linalg.norm(M), estimator.certificate_.status


@pytest.mark.costly
def test_units_change_nothing(estimator, iris):
    X, y = iris
    expected, status = learned(estimator, X, y)
    for decades in (-12, -5, 7, 12):
        found, ended = learned(estimator, X * 10.0**decades, y)
        assert ended == status, decades
        assert_allclose(found, expected, atol=2e-2, err_msg=f"units of 1e{decades}")


@pytest.mark.cases(6)
@pytest.mark.parametrize("scale", [1e-200, 1e-80, 1e80, 1e200])
def test_rows_out_of_range_are_refused(estimator, iris, scale):
    X, y = iris
    with pytest.raises(ValueError, match=r"leave the range of float64; rescale it.*[^4]\.$"):
        estimator.fit(X * scale, y)
    learned(estimator, TableEncoder().fit_transform(X * scale), y)  # the remedy of the message


@pytest.mark.parametrize("metric", [DMLEig(), LMNNEig()], ids=repr)
def test_a_column_too_small_to_be_whitened_is_refused_not_left_out(metric, iris, asarray):
    X, y = iris
    with pytest.raises(ValueError, match=r"column 2 of X varies so little.*TableEncoder"):
        metric.fit(asarray(X * [1, 1, 1e-200, 1]), y)


def test_rows_out_of_the_range_of_single_precision_are_refused(iris, asarray):
    X, y = asarray(np.float32(iris[0] * 1e16)), iris[1]
    with pytest.raises(ValueError, match=r"leave the range of .*float32; rescale it"):
        FrobMetric().fit(X, y)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (FrobMetric(10**400), "C"),
        (FrobMetric(1e-320), "C"),
        (LMNNEig(gamma=1e-320), "gamma"),
        (BoostMetric(1e-320), "v"),
        (BoostMetric(1e200), "v"),
        (DMLEig(ridge=1e-320), "ridge"),
        (RelativeComparisons(10**400), "C"),
        (MaximumVarianceUnfolding(sigma=10**400), "sigma"),
        (MaxMarginMatrixFactorization(1e-320), "gamma"),
        (NuMax(1e-320), "delta"),
    ],
    ids=repr,
)
def test_parameters_out_of_range_are_refused(metric, name, iris):
    with pytest.raises(ValueError, match=f"^{name} is too (large|small) to compute with"):
        metric.fit(*iris)


def test_lists_of_parameters_out_of_range_are_refused(iris):
    with pytest.raises(ValueError, match="Cs has a number out of the range"):
        frobmetric_path(*iris, Cs=[1.0, 10**400])
    for sigma in (1e-320, 10**400):
        with pytest.raises(ValueError, match=r"'sigma' parameter .* must be a float in the range"):
            solve_frobenius_sdp(np.eye(2), [np.eye(2)], [1.0], sigma)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_numbers_at_the_edge_of_what_is_allowed_are_computed_with(iris):
    X, y = iris
    for C in (1e-140, 1e140):
        metric = FrobMetric(C, max_iter=3).fit(X, y)
        assert np.isfinite(metric.components_).all()
