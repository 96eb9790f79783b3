"""Weights of rows and of constraints: what they do to each program, and to its optimum."""

import numpy as np
import pytest
from cases import case, pairs_of
from instances import random_triplets
from learners import check_complete
from numpy.testing import assert_allclose, assert_array_equal
from oracles import (
    comparison_optimum,
    dml_eig_optimum,
    frobenius_optimum,
    lmnn_eig_optimum,
    soft_margin_optimum,
    trace_optimum,
)
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    RelativeComparisons,
    frobmetric_path,
)
from conemetric.core.arrays import to_numpy
from conemetric.core.weights import MAX_WEIGHT, check_range, class_factors
from conemetric.engine.operators.whitening import similar_scatter
from conemetric.evaluation.knn import knn_predict

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*targets", "ignore:.*no metric"
)
RIDGE = 1e-3
FROM_TRIPLETS = {
    "frobmetric": FrobMetric(C=2.0, tol=1e-9),
    "squared hinge": FrobMetric(C=2.0, loss="squared_hinge", tol=1e-9),
    "logistic": FrobMetric(C=2.0, loss="logistic", tol=1e-9),
    "boosted": BoostMetric(v=5.0, solver="corrective", tol=1e-6),
    "boosted logistic": BoostMetric(v=5.0, loss="logistic", solver="corrective", tol=1e-6),
    "boosted hinge": BoostMetric(v=0.2, loss="hinge", tol=1e-7),
    "lmnn_eig": LMNNEig(ridge=RIDGE, tol=1e-6),
    "relative": RelativeComparisons(C=0.1, tol=1e-9),
}
check_complete(FROM_TRIPLETS.values(), "triplets")


def instance(seed):
    """X, triplets, and weights from 0.1 to 10."""
    rng = np.random.default_rng(seed)
    n, D = int(rng.integers(6, 12)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, D))
    T = random_triplets(rng, n, int(rng.integers(8, 25)))
    return X, T, 10 ** rng.uniform(-1, 1, len(T))


def optimum(name, X, T, w):
    """The weighted program by an interior-point method."""
    if name in ("frobmetric", "squared hinge", "logistic"):
        return frobenius_optimum(X, T, 2.0, FROM_TRIPLETS[name].loss, weights=w)
    if name == "boosted hinge":
        return soft_margin_optimum(X, T, 0.2, w)
    if name.startswith("boosted"):
        return trace_optimum(X, T, FROM_TRIPLETS[name].loss, 5.0, weights=w)[0]
    if name == "relative":
        i, j, k = X[T].transpose(1, 0, 2)
        return comparison_optimum((i - k) ** 2 - (i - j) ** 2, np.eye(X.shape[1]), 0.1, w)
    scatter = similar_scatter(X, np.unique(T[:, :2], axis=0), RIDGE)
    return lmnn_eig_optimum(X, T, 0.5, scatter, w)


@pytest.mark.parametrize("name", FROM_TRIPLETS)
def test_weighted_triplets_against_a_conic_solver(name, seed):
    X, T, w = instance(seed)
    metric = clone(FROM_TRIPLETS[name]).fit(X, triplets=T, sample_weight=w)
    value, certificate = optimum(name, X, T, w), metric.certificate_
    slack = 2e-6 * abs(value) + 1e-7
    assert certificate.primal >= value - slack
    assert certificate.dual <= value + slack
    assert certificate.primal == pytest.approx(value, rel=2e-5, abs=1e-6)


def test_weighted_pairs_against_a_conic_solver(seed):
    X, T, w = instance(seed)
    pairs, similar = np.vstack([T[:, :2], T[:, [0, 2]]]), np.arange(2 * len(T)) < len(T)
    weights = np.append(w, w[::-1])
    metric = DMLEig(ridge=RIDGE, tol=1e-6)
    metric.fit(X, pairs=pairs, similar=similar, sample_weight=weights)
    scatter = similar_scatter(X, pairs[similar], RIDGE, w)
    assert_allclose(metric.similar_scatter_, scatter)
    value = dml_eig_optimum(X, pairs, similar, scatter)
    assert metric.objective_ == pytest.approx(value, rel=2e-5)


@pytest.mark.parametrize("name", FROM_TRIPLETS)
def test_two_is_a_triplet_given_twice_and_zero_one_not_given(name):
    X, T, _ = instance(1)
    count = np.random.default_rng(0).integers(0, 4, len(T))
    weighted = clone(FROM_TRIPLETS[name]).fit(X, triplets=T, sample_weight=count)
    repeated = clone(weighted).fit(X, triplets=T.repeat(count, axis=0))
    assert_array_equal(weighted.triplets_, T[count > 0])
    # both intervals hold the same optimum
    first, second = weighted.certificate_, repeated.certificate_
    assert first.dual <= second.primal + 1e-9 * abs(second.primal)
    assert second.dual <= first.primal + 1e-9 * abs(first.primal)
    assert first.primal == pytest.approx(second.primal, rel=1e-6, abs=1e-8)
    if name == "frobmetric":
        assert_allclose(
            weighted.get_mahalanobis_matrix(), repeated.get_mahalanobis_matrix(), atol=1e-5
        )


def test_two_is_a_similar_pair_given_twice():
    X, T, _ = instance(1)
    pairs, similar = np.vstack([T[:, :2], T[:, [0, 2]]]), np.arange(2 * len(T)) < len(T)
    count = np.random.default_rng(0).integers(0, 4, len(pairs))
    weighted = DMLEig(ridge=RIDGE).fit(X, pairs=pairs, similar=similar, sample_weight=count)
    chosen = np.arange(len(pairs)).repeat(count)
    repeated = DMLEig(ridge=RIDGE).fit(X, pairs=pairs[chosen], similar=similar[chosen])
    assert_allclose(weighted.similar_scatter_, repeated.similar_scatter_)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=2e-3)


FROM_LABELS = {
    "frobmetric": FrobMetric(),
    "prior": FrobMetric(prior="identity"),
    "boosted": BoostMetric(max_iter=5),
    "two passes": BoostMetric(v=1.0, loss="logistic", max_iter=5, n_passes=2),
    "lmnn_eig": LMNNEig(),
    "dml_eig": DMLEig(ridge=RIDGE),
    "relative": RelativeComparisons(),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3
    X[:, 0] += y
    return X, y


@pytest.mark.parametrize("name", FROM_LABELS)
def test_rows_of_weight_zero_are_absent(name, rows):
    X, y = rows
    w = np.where(np.arange(60) % 4 == 1, 0.0, 1.0)
    weighted = clone(FROM_LABELS[name]).fit(X, y, sample_weight=w)
    absent = clone(weighted).fit(X[w > 0], y[w > 0])
    assert weighted.objective_ == pytest.approx(absent.objective_, rel=1e-9)
    assert_allclose(weighted.components_, absent.components_, atol=1e-7)
    if name == "dml_eig":
        assert_array_equal(weighted.pairs_, np.flatnonzero(w)[absent.pairs_])
    else:
        assert_array_equal(weighted.triplets_, np.flatnonzero(w)[absent.triplets_])


@pytest.mark.parametrize("name", ["frobmetric", "boosted", "relative"])
def test_a_triplet_weighs_as_its_first_row(name, rows):
    X, y = rows
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    by_rows = clone(FROM_LABELS[name]).fit(X, y, sample_weight=w)
    T = by_rows.triplets_
    by_triplets = clone(by_rows).fit(X, triplets=T, sample_weight=w[T[:, 0]])
    assert_allclose(by_rows.components_, by_triplets.components_)


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", FROM_LABELS)
def test_libraries_and_precisions_agree(name, rows, asarray, dtype):
    X, y = rows
    w = np.random.default_rng(0).integers(0, 3, 60)
    plain = clone(FROM_LABELS[name]).fit(X, y, sample_weight=w)
    here = clone(plain).fit(asarray(X.astype(dtype)), y, sample_weight=asarray(w))
    assert to_numpy(here.components_).dtype == dtype
    assert here.objective_ == pytest.approx(plain.objective_, rel=3e-3)


def test_balanced_classes_weigh_the_same(rows):
    X, _ = rows
    y = np.array([0] * 40 + [1] * 15 + [2] * 5)
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    balanced = FrobMetric(class_weight="balanced").fit(X, y, sample_weight=w)
    factor = w.sum() / (3 * np.bincount(y, w))
    assert_allclose(
        balanced.components_, FrobMetric().fit(X, y, sample_weight=w * factor[y]).components_
    )
    named = FrobMetric(class_weight={1: 2.0, 2: 0.0}).fit(X, y)
    by_hand = FrobMetric().fit(X[:55], y[:55], sample_weight=np.array([1.0, 2.0])[y[:55]])
    assert_allclose(named.components_, by_hand.components_)


def test_given_neighbours_keep_all_rows(rows):
    X, y = rows
    w = np.where(np.arange(60) % 4 == 1, 0.0, 2.0)
    # the target of every row is the next of its class, whatever that weighs
    others = np.arange(60)[:, None]
    lists = (others + 3) % 60, (others + 1) % 60
    metric = FrobMetric(n_targets=1, n_impostors=1).fit(X, y, neighbors=lists, sample_weight=w)
    assert (w[metric.triplets_[:, 0]] > 0).all()
    assert (w[metric.triplets_[:, 1]] == 0).any()


def test_a_path_is_weighted_too(rows):
    X, y = rows
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    (metric,) = frobmetric_path(X, y, sample_weight=w, Cs=[0.1])
    assert_allclose(
        metric.components_, FrobMetric(C=0.1).fit(X, y, sample_weight=w).components_, atol=1e-9
    )
    chosen = FrobMetricCV(Cs=[0.1], cv=2, class_weight="balanced").fit(X, y)
    assert_allclose(
        chosen.components_, FrobMetric(C=0.1, class_weight="balanced").fit(X, y).components_
    )


def test_folds_are_weighted_as_their_rows_are(rows):
    X, y = rows
    w = np.random.default_rng(0).uniform(0.5, 20, 60)
    folds = list(StratifiedKFold(2).split(X, y))
    parameters = {"class_weight": "balanced"}
    metric = FrobMetricCV(Cs=[0.01, 1.0], cv=folds, **parameters).fit(X, y, sample_weight=w)
    balanced = w * class_factors("balanced", y, w)
    for scores, (train, test) in zip(metric.scores_, folds, strict=True):
        path = frobmetric_path(
            X[train], y[train], sample_weight=w[train], Cs=metric.Cs_, **parameters
        )
        for score, once in zip(scores, path, strict=True):
            Z = once.transform(X)
            right = knn_predict(Z[train], y[train], Z[test], 3) == y[test]
            assert score == pytest.approx(np.average(right, weights=balanced[test]))
    best = metric.Cs_[metric.scores_.mean(0).argmax()]
    expected = FrobMetric(C=best, **parameters).fit(X, y, sample_weight=w)
    assert_allclose(metric.components_, expected.components_)


def test_a_row_of_weight_zero_is_in_no_fold(rows):
    X, y = rows
    w = np.where(np.arange(60) % 4 == 1, 0.0, 1.0)
    search = FrobMetricCV(Cs=[1.0, 10.0], cv=3, random_state=0)
    metric = clone(search).fit(X, y, sample_weight=w)
    without = clone(search).fit(X[w > 0], y[w > 0])
    assert_allclose(metric.scores_, without.scores_)
    assert_allclose(metric.components_, without.components_, atol=1e-9)


def test_listed_folds_number_all_rows(rows):
    X, y = rows
    w = np.where(np.arange(60) % 4 == 1, 0.0, 1.0)
    folds = list(StratifiedKFold(2).split(X, y))
    metric = FrobMetricCV(Cs=[1.0, 10.0], cv=folds).fit(X, y, sample_weight=w)
    there = np.flatnonzero(w)
    fewer = [[np.searchsorted(there, part[w[part] > 0]) for part in fold] for fold in folds]
    without = FrobMetricCV(Cs=[1.0, 10.0], cv=fewer).fit(X[there], y[there])
    assert_allclose(metric.scores_, without.scores_)


@pytest.mark.parametrize(
    "metric", [FrobMetric(), FrobMetricCV(Cs=[1.0, 10.0], cv=2, random_state=0)]
)
def test_weights_are_routed_through_a_pipeline(metric, rows):
    X, y = rows
    w = np.random.default_rng(0).uniform(0.5, 2, 60)
    with config_context(enable_metadata_routing=True):
        step = clone(metric).set_fit_request(sample_weight=True)
        pipeline = make_pipeline(step, KNeighborsClassifier(3)).fit(X, y, sample_weight=w)
    expected = clone(metric).fit(X, y, sample_weight=w)
    assert_allclose(pipeline[0].components_, expected.components_)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\); .*one number for each of the 60 rows"),
        (np.full(60, -1.0), "holds -1.0"),
        (np.full(60, np.nan), "holds nan"),
        (np.zeros(60), "zero for all 60 rows"),
    ],
)
def test_errors_name_what_is_wrong(rows, weights, message):
    with pytest.raises(ValueError, match=message):
        FrobMetric().fit(*rows, sample_weight=weights)


def test_class_weights_go_with_labels(rows):
    X, y = rows
    with pytest.raises(ValueError, match="goes with class labels"):
        FrobMetric(class_weight="balanced").fit(X, triplets=[[0, 1, 2]])
    with pytest.raises(ValueError, match="goes with class labels"):
        FrobMetric(class_weight="balanced").fit(X, y + X[:, 1])
    with pytest.raises(ValueError, match="names 7, which is not among the labels"):
        FrobMetric(class_weight={7: 1.0}).fit(X, y)


# ---- weights of any size

EVERY = {
    "frobmetric": FrobMetric(),
    "frobmetric, C": FrobMetric(1.0),
    "boosted": BoostMetric(max_iter=20),
    "boosted exponential": BoostMetric(loss="exponential", max_iter=20),
    "boosted hinge": BoostMetric(loss="hinge", max_iter=20),
    "lmnn_eig": LMNNEig(max_iter=20),
    "dml_eig": DMLEig(max_iter=20),
    "relative": RelativeComparisons(),
    "relative, C": RelativeComparisons(1.0, max_iter=50),
}


def fitted(estimator, X, how, size):
    """Weights of this size for all rows, for some triplets or pairs, or for a class."""
    rng = np.random.default_rng(0)
    y = np.arange(len(X)) % 2
    if how == "class_weight":
        return clone(estimator).set_params(class_weight={0: size}).fit(X, y)
    if how == "rows":
        return estimator.fit(X, y, sample_weight=np.full(len(X), size))
    numbers, weights = np.array([rng.permutation(len(X))[:3] for _ in range(12)]), np.ones(12)
    weights[::2] = size
    if isinstance(estimator, DMLEig):
        pairs = {"pairs": numbers[:, :2], "similar": np.arange(12) // 2 % 2}
        return estimator.fit(X, **pairs, sample_weight=weights)
    return estimator.fit(X, triplets=numbers, sample_weight=weights)


HOW = ("rows", "tuples", "class_weight")
SIZES = (1e-300, 1e-155, 1e-40, 1e-9, 1e9, 1e40, 1e155, 1e308)


def is_allowed(size, dtype):
    heaviest = MAX_WEIGHT[np.dtype(dtype).itemsize]
    return 1 / heaviest <= size <= heaviest


def twenty_rows(dtype):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(20, 3)) + np.arange(20)[:, None] % 2).astype(dtype)


@pytest.mark.cases(6)
@pairs_of(
    name=EVERY,
    how=HOW,
    size_and_dtype=[
        (size, dtype)
        for dtype in (np.float64, np.float32)
        for size in SIZES
        if is_allowed(size, dtype)
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_allowed_weights_of_any_size_are_computed_with(name, how, size_and_dtype):
    size, dtype = size_and_dtype
    X = twenty_rows(dtype)
    certificate = fitted(EVERY[name], X, how, size).certificate_
    assert np.isfinite(certificate.primal)
    if certificate.status == "converged":
        assert certificate.relative_gap <= 1e-3


@pairs_of(name=EVERY, how=HOW)
def test_weights_out_of_range_are_refused_by_every_estimator(name, how):
    with pytest.raises(ValueError, match="weights are zero or between"):
        fitted(EVERY[name], twenty_rows(np.float64), how, 1e155)


def test_the_range_of_weights_depends_on_the_precision():
    for dtype in (np.float64, np.float32):
        for size in SIZES:
            with case(size=size, dtype=dtype):
                weights = np.array([0.0, 1.0, size])
                if is_allowed(size, dtype):
                    check_range(weights, np.dtype(dtype))
                else:
                    with pytest.raises(ValueError, match="weights are zero or between"):
                        check_range(weights, np.dtype(dtype))


def test_weights_out_of_range_are_named():
    check_range(np.array([0.0, 1.0, 1e60]), np.dtype(np.float64))
    with pytest.raises(ValueError, match=r"holds 1e\+61; for X in float64 .* their mean"):
        check_range(np.array([1.0, 1e61]), np.dtype(np.float64))
