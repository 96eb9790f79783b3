"""scikit-learn's own checks of every public estimator: all pass but those that
`expected_failed_checks` declares, which docs/scikit_learn.md explains.
"""

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from learners import public_classes
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    GradientMetric,
    KernelCoordinates,
    LearnedAdapter,
    LearnedMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    MetricClassifier,
    MetricRegressor,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
    RelevanceMetric,
    TableEncoder,
    expected_failed_checks,
)

PAGE = (Path(__file__).parents[1] / "docs" / "scikit_learn.md").read_text()
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of tiny data


class Kernel:
    """A kernel whose name, and so the tests' names, are the same in every process."""

    def __call__(self, X, Y):
        return rbf_kernel(X, Y)

    def __repr__(self):
        return "Kernel()"


QUICK = [
    AutoMetric(candidates={"pca": PCA(1), "frob": FrobMetric(1.0, tol=0.05)}, random_state=0),
    BoostMetric(max_iter=20),
    DMLEig(max_iter=3),
    FrobMetric(),
    FrobMetricCV(Cs=[1.0, 10.0], cv=2, tol=0.05),
    GradientMetric(),
    GradientMetric("city block", n_rounds=1),
    KernelCoordinates(n_components=5),
    LMNNEig(max_iter=3),
    LearnedAdapter(np.eye(2, 4), np.zeros(2)),
    LearnedMetric(np.eye(2, 4), np.zeros(2)),
    MaxMarginMatrixFactorization(),
    MaximumVarianceUnfolding(n_neighbors=3, tol=0.3),
    MetricClassifier(metric=None, random_state=0),
    MetricRegressor(metric=None, random_state=0),
    NuMax(delta=0.5, tol=0.01),
    QueryAdapter(),
    RelativeComparisons(),
    RelevanceMetric(),
    TableEncoder(),
]
SLOW = [
    BoostMetric(loss="logistic", solver="corrective", n_passes=2, max_iter=5),
    MetricClassifier(random_state=0),
    MetricRegressor(random_state=0),
    RelativeComparisons(basis="pca"),
    RelativeComparisons(basis=Kernel()),
    FrobMetric(kernel="gaussian"),
    KernelCoordinates("laplacian"),
    KernelCoordinates("cosine"),
]


def test_every_public_estimator_is_checked():
    assert {type(estimator) for estimator in QUICK} == set(public_classes())


@pytest.mark.cases(60)  # every check, and every estimator
@pytest.mark.usefixtures("coarse_search")
@parametrize_with_checks(QUICK, expected_failed_checks=expected_failed_checks)
def test_all_other_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(SLOW, expected_failed_checks=expected_failed_checks)
def test_all_other_checks_pass_with_other_settings(estimator, check):
    check(estimator)


def name_of(check):
    while isinstance(check, partial):
        check = check.func
    return check.__name__


@pytest.mark.cases(6)
@pytest.mark.usefixtures("coarse_search")
@pytest.mark.parametrize(
    "estimator",
    [each for each in QUICK if expected_failed_checks(each)],
    ids=lambda each: type(each).__name__,
)
def test_what_is_declared_does_fail(estimator):
    declared, failed = expected_failed_checks(estimator), set()
    known = {name_of(check) for _, check in estimator_checks_generator(estimator)}
    for each, check in estimator_checks_generator(estimator):
        if name_of(check) in declared:
            try:
                check(each)
            except Exception:
                failed.add(name_of(check))
    assert failed == declared.keys() & known


@pytest.mark.parametrize("kind", public_classes())
def test_the_page_has_every_reason_and_number(kind):
    declared = expected_failed_checks(kind)
    for reason in set(declared.values()):
        (row,) = [line for line in PAGE.splitlines() if f"| {reason} |" in line]
        names, numbers, _ = row.strip("| ").split(" | ")
        assert f"`{kind.__name__}`" in names
        assert re.search(rf"\b{len(declared)}\b", numbers)
