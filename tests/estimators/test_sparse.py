"""Fits to sparse X against fits to the same X, dense."""

import numpy as np
import pytest
from learners import check_complete
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    NuMax,
    RelativeComparisons,
)
from conemetric.estimators import validation

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*targets"
)
RIDGE = 1e-3
ESTIMATORS = {
    "frobmetric": FrobMetric(tol=1e-9),
    "cross-validated": FrobMetricCV(Cs=[0.01], cv=2, tol=1e-9),
    "lmnn_eig": LMNNEig(ridge=RIDGE, max_iter=10),
    "dml_eig": DMLEig(ridge=RIDGE, max_iter=10),
    "exponential": BoostMetric(max_iter=15),
    "two passes": BoostMetric(v=1.0, loss="logistic", max_iter=8, n_passes=2),
    "hinge": BoostMetric(v=0.05, loss="hinge", max_iter=6, n_targets=1, n_impostors=1),
    "relative": RelativeComparisons(tol=1e-9),
    "relative, pca": RelativeComparisons(basis="pca"),
    "numax": NuMax(delta=0.4),
}
check_complete(ESTIMATORS.values(), "sparse rows")


@pytest.fixture(scope="module", params=[(45, 20), (30, 90)], ids=["tall", "wide"])
def data(request):
    n, D = request.param
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D)) * (rng.uniform(size=(n, D)) < 0.3)
    y = np.arange(n) % 3
    X[:, 0] += y + 100
    return X, y


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_sparse_equals_dense(name, data):
    X, y = data
    dense, thin = clone(ESTIMATORS[name]), clone(ESTIMATORS[name])
    dense.fit(X, y)
    thin.fit(sparse.csr_array(X), y)
    assert thin.n_features_in_ == X.shape[1]
    if hasattr(dense, "triplets_"):
        assert_array_equal(thin.triplets_, dense.triplets_)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=1e-8)
    assert thin.certificate_.dual <= dense.objective_ + 1e-9 * abs(dense.objective_)
    assert_allclose(thin.transform(sparse.csc_matrix(X)), thin.transform(X), atol=1e-10)


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", ["frobmetric", "lmnn_eig", "dml_eig", "exponential", "numax"])
def test_single_precision(name, data):
    X, y = data
    metric = clone(ESTIMATORS[name]).set_params(tol=1e-3).fit(X, y)
    thin = clone(metric).fit(sparse.csr_array(X.astype(np.float32)), y)
    assert thin.components_.dtype == np.float32
    assert thin.transform(sparse.csr_array(X.astype(np.float32))).dtype == np.float32
    assert thin.objective_ == pytest.approx(metric.objective_, rel=5e-3)


@pytest.mark.parametrize("container", [sparse.csc_array, sparse.csr_matrix, sparse.lil_array])
def test_other_containers(container, data):
    X, y = data
    expected = FrobMetric().fit(sparse.csr_array(X), y)
    found = FrobMetric().fit(container(X), y)
    assert_array_equal(found.components_, expected.components_)


def test_triplets_of_sparse_rows(data):
    X, y = data
    T = FrobMetric().fit(X, y).triplets_
    direct = FrobMetric(tol=1e-9).fit(X, triplets=T)
    thin = FrobMetric(tol=1e-9).fit(sparse.csr_array(X), triplets=T)
    assert thin.objective_ == pytest.approx(direct.objective_, rel=1e-8)


def test_numbers_as_targets(data):
    X, _ = data
    y = np.random.default_rng(0).normal(size=len(X))
    dense, thin = FrobMetric(tol=1e-9), FrobMetric(tol=1e-9)
    dense.fit(X, y)
    thin.fit(sparse.csr_array(X), y)
    assert_array_equal(thin.triplets_, dense.triplets_)


def test_empty_rows_and_duplicates():
    X = sparse.csr_array(np.vstack([np.eye(8), np.zeros((2, 8)), np.eye(8)[:4]]))
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0, 0])
    for name in ("frobmetric", "lmnn_eig", "exponential"):
        dense = clone(ESTIMATORS[name]).fit(X.toarray(), y)
        thin = clone(ESTIMATORS[name]).fit(X, y)
        assert_array_equal(thin.triplets_, dense.triplets_)
        assert thin.objective_ == pytest.approx(dense.objective_, rel=2e-4)


def test_too_large_to_be_exact_names_the_remedy(monkeypatch):
    monkeypatch.setattr(validation, "MAX_SPARSE_ORDER", 10)
    X = sparse.random_array((20, 30), density=0.2, rng=0)
    with pytest.raises(ValueError, match=r"20 rows and 30 features.*TruncatedSVD"):
        FrobMetric().fit(X, np.arange(20) % 2)


def test_too_large_to_make_dense_names_the_remedy(monkeypatch):
    monkeypatch.setattr(validation, "MAX_DENSE_ENTRIES", 10)
    X = sparse.random_array((20, 5), density=0.2, rng=0)
    with pytest.raises(ValueError, match=r"RelativeComparisons must make.*TruncatedSVD"):
        RelativeComparisons().fit(X, np.arange(20) % 2)


def test_in_a_pipeline_behind_a_text_vectorizer():
    texts = ["red apple pie", "green apple", "apple tart", "fast red car", "green car", "old car"]
    labels = [0, 0, 0, 1, 1, 1]
    pipeline = make_pipeline(TfidfVectorizer(), FrobMetric(), KNeighborsClassifier(1))
    assert pipeline.fit(texts, labels).score(texts, labels) == 1.0
