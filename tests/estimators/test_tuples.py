"""Tuples of points, in the style of metric-learn: the same optimum as from row numbers,
predictions, thresholds, scores, cross-validation.
"""

import numpy as np
import pytest
import sklearn
from learners import check_complete
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, fbeta_score, make_scorer, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import shuffle

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    RelativeComparisons,
)
from conemetric.constraints.in_memory import (
    check_similar,
    quadruplets_from_pairs,
    triplets_from_values,
)
from conemetric.core import slices as slices_module
from conemetric.core.arrays import to_numpy
from conemetric.estimators.tuples import unfold

X, y = load_iris(return_X_y=True)
TRIPLET_METRICS = [
    FrobMetric(),
    BoostMetric(v=0.1, loss="logistic"),
    LMNNEig(),
    RelativeComparisons(),
]
check_complete(TRIPLET_METRICS, "triplets")
METRICS = [*TRIPLET_METRICS, DMLEig()]
check_complete(METRICS, "tuples")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def some_triplets(seed=0, n=60):
    rng = np.random.default_rng(seed)
    i = rng.integers(0, len(X), n)
    j = np.array([rng.choice(np.flatnonzero((y == y[a]) & (np.arange(len(X)) != a))) for a in i])
    k = np.array([rng.choice(np.flatnonzero(y != y[a])) for a in i])
    return np.stack([i, j, k], 1)


def some_pairs(seed=0, n=80):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(len(X), 2, replace=False) for _ in range(n)])
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def tuples_of(metric):
    """(numbers, y or None) that the metric learns from."""
    return some_pairs() if isinstance(metric, DMLEig) else (some_triplets(), None)


def ids(metric):
    return type(metric).__name__


@pytest.mark.parametrize("metric", TRIPLET_METRICS, ids=ids)
def test_points_numbers_and_quadruplets_give_the_same_optimum(metric):
    T = some_triplets()
    by_number = clone(metric).fit(X, triplets=T)
    slack = 2e-3 * abs(by_number.objective_)
    for learned in (
        clone(metric).fit(X[T]),
        clone(metric).set_params(preprocessor=X).fit(T),
        clone(metric).set_params(preprocessor=lambda numbers: X[numbers]).fit(T),
        clone(metric).fit(X[T[:, [0, 1, 0, 2]]]),
        clone(metric).fit(X, triplets=T[:, [0, 1, 0, 2]]),
    ):
        assert learned.certificate_.meets(metric.tol)
        assert learned.objective_ == pytest.approx(by_number.objective_, abs=slack)


def test_pairs_by_points_numbers_and_signs():
    pairs, sign = some_pairs()
    by_number = DMLEig().fit(X, pairs=pairs, similar=sign == 1)
    for learned in (
        DMLEig().fit(X[pairs], sign),
        DMLEig(preprocessor=X).fit(pairs, sign),
        DMLEig().fit(X, pairs=pairs, similar=sign),
    ):
        assert learned.objective_ == pytest.approx(by_number.objective_, rel=2e-3)


FORMS = {
    "signs": lambda sign: sign,
    "booleans": lambda sign: sign > 0,
    "ones": lambda sign: 1 * (sign > 0),
}


@pytest.mark.parametrize("form", FORMS)
def test_pairs_are_marked_in_one_way_everywhere(form):
    pairs, sign = some_pairs()
    marked = FORMS[form](sign)
    expected = DMLEig().fit(X[pairs], sign)
    learned = DMLEig().fit(X[pairs], marked)
    assert learned.threshold_ == expected.threshold_
    assert learned.score(X[pairs], marked) == expected.score(X[pairs], sign)
    held_out = X[some_pairs(1)[0]], some_pairs(1)[1]
    assert (
        learned.calibrate_threshold(held_out[0], FORMS[form](held_out[1])).threshold_
        == expected.calibrate_threshold(*held_out).threshold_
    )
    for wrong, fault in ((marked[:-1], "one value for each"), (sign + 0.5, "y must be boolean")):
        with pytest.raises(ValueError, match=fault):
            learned.calibrate_threshold(X[pairs], wrong)


@pytest.mark.parametrize("kind", ["rows", "sparse", "numbers"])
def test_a_fit_to_given_pairs_sets_the_best_threshold_for_them(kind, asarray):
    pairs, sign = some_pairs()
    metric = DMLEig(preprocessor=X) if kind == "numbers" else DMLEig()
    given = {"rows": asarray(X), "sparse": csr_array(X), "numbers": np.arange(len(X))}[kind]
    metric.fit(given, pairs=pairs, similar=sign)
    distance = to_numpy(DMLEig().fit(X, pairs=pairs, similar=sign).pair_distance(X[pairs]))
    tried = [np.mean(np.where(distance <= t, 1, -1) == sign) for t in distance]
    predicted = np.where(distance <= metric.threshold_ + 1e-9, 1, -1)
    assert np.mean(predicted == sign) == max(tried)
    if kind == "rows":
        assert_array_equal(metric.predict(asarray(X[pairs])), predicted)
    assert not hasattr(metric.fit(X, y), "threshold_")  # no pairs are given


def test_a_threshold_is_set_from_many_pairs_a_part_at_a_time(monkeypatch):
    pairs, sign = some_pairs()
    whole = DMLEig().fit(X, pairs=pairs, similar=sign)
    monkeypatch.setattr(slices_module, "MAX_HELD", 7 * 2 * X.shape[1])
    assert DMLEig().fit(X, pairs=pairs, similar=sign).threshold_ == pytest.approx(whole.threshold_)


def test_the_pairs_of_rows_take_a_strategy():
    pairs, sign = some_pairs()
    how = {"strategy": "max_tnr", "min_rate": 1.0}
    metric = DMLEig().fit(X, pairs=pairs, similar=sign, calibration_params=how)
    assert (metric.predict(X[pairs])[sign == 1] == 1).all()


def test_a_callable_may_be_given_names():
    pairs, sign = some_pairs()
    names = np.array([f"photo-{i}.png" for i in range(len(X))])
    photos = dict(zip(names, X, strict=True))
    metric = DMLEig(preprocessor=lambda paths: np.array([photos[path] for path in paths]))
    by_number = DMLEig(preprocessor=X).fit(pairs, sign)
    for given in (names[pairs], names[pairs].tolist(), names[pairs].astype(object)):
        metric.fit(given, sign)
        assert metric.objective_ == by_number.objective_
        assert_array_equal(metric.predict(given), by_number.predict(pairs))
    assert_array_equal(metric.transform(names), by_number.transform(X))


def test_a_metric_of_one_feature_takes_numbers():
    metric = FrobMetric().fit(X[:, :1], y)
    assert metric.get_metric()(5, 6.5) == metric.get_metric()([5.0], [6.5]) > 0


def test_tensors_stay_tensors(asarray, dtype):
    T = some_triplets()
    learned = FrobMetric().fit(asarray(X.astype(dtype))[asarray(T)])
    assert type(learned.components_) is type(asarray(np.zeros(1)))
    assert learned.score(asarray(X.astype(dtype))[asarray(T)]) > 0.9


def test_quadruplets_of_four_different_points_are_certified():
    rng = np.random.default_rng(0)
    Q = np.array([rng.choice(len(X), 4, replace=False) for _ in range(50)])
    swap = np.linalg.norm(X[Q[:, 0]] - X[Q[:, 1]], axis=1) > np.linalg.norm(
        X[Q[:, 2]] - X[Q[:, 3]], axis=1
    )
    Q[swap] = Q[swap][:, [2, 3, 0, 1]]
    learned = FrobMetric().fit(X[Q])
    assert learned.certificate_.meets(1e-3)
    distance = np.stack([learned.pair_distance(X[Q[:, c]]) for c in ([0, 1], [2, 3])])
    assert_array_equal(learned.predict(X[Q]) == 1, distance[0] < distance[1])


def test_unfold_keeps_every_point_once():
    T = some_triplets()
    rows, numbers = unfold(X[T])
    assert len(rows) == len(np.unique(X[np.unique(T)], axis=0))
    assert_array_equal(rows[numbers], X[T])


@pytest.mark.parametrize("metric", METRICS, ids=ids)
@pytest.mark.parametrize("with_preprocessor", [False, True])
def test_predictions_are_signs_of_the_decision(metric, with_preprocessor):
    numbers, sign = tuples_of(metric)
    metric = clone(metric).set_params(preprocessor=X if with_preprocessor else None)
    given = numbers if with_preprocessor else X[numbers]
    with pytest.raises(NotFittedError):
        metric.predict(given)
    with pytest.raises(NotFittedError):
        metric.decision_function(given)
    metric.fit(given, sign)
    decision, predicted = metric.decision_function(given), metric.predict(given)
    assert set(np.unique(predicted)) <= {-1, 1}
    assert decision[predicted == 1].min() >= decision[predicted == -1].max(initial=-np.inf)
    expected = np.mean(predicted == 1) if sign is None else roc_auc_score(sign, to_numpy(decision))
    assert metric.score(given, sign) == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS, ids=ids)
@pytest.mark.costly
def test_cross_validation_and_search_need_no_scorer(metric):
    numbers, sign = tuples_of(metric)
    given = X[numbers]
    scores = cross_val_score(metric, given, sign, cv=3)
    assert np.isfinite(scores).all()
    assert np.isfinite(cross_val_predict(metric, given, sign, cv=3)).all()
    search = GridSearchCV(metric, {"tol": [1e-2, 1e-3]}, cv=3).fit(given, sign)
    assert 0 <= search.best_score_ <= 1


@pytest.mark.parametrize("scoring", ["accuracy", "f1", "precision", "roc_auc"])
def test_scikit_learn_scorers_work_on_pairs(scoring):
    if scoring == "roc_auc" and tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
        pytest.skip("before 1.9, scorers of decision values took classifiers only")
    pairs, sign = some_pairs()
    assert np.isfinite(cross_val_score(DMLEig(), X[pairs], sign, cv=3, scoring=scoring)).all()


@pytest.mark.parametrize("metric", METRICS, ids=ids)
def test_lists_are_as_good_as_arrays(metric):
    numbers, sign = tuples_of(metric)
    given, sign = X[numbers].tolist(), None if sign is None else sign.tolist()
    metric = clone(metric).fit(given, sign)
    assert metric.transform(X.tolist()).shape[0] == len(X)
    assert len(metric.predict(given)) == len(given)
    metric.pair_distance(X[numbers[:, :2]].tolist())


@pytest.mark.parametrize("metric", METRICS, ids=ids)
def test_fitting_leaves_parameters_alone(metric):
    numbers, sign = tuples_of(metric)
    metric = clone(metric)
    before = metric.get_params()
    assert metric.fit(X[numbers], sign) is metric
    assert metric.get_params() == before
    first = metric.components_
    assert_allclose(clone(metric).fit(X[numbers], sign).components_, first)


@pytest.mark.parametrize("metric", METRICS, ids=ids)
def test_the_metric_is_one(metric):
    """Symmetric, nonnegative, zero on the diagonal, triangle inequality; as pair_distance."""
    numbers, sign = tuples_of(metric)
    learned = clone(metric).fit(X[numbers], sign)
    d = learned.get_metric()
    rng = np.random.default_rng(0)
    for a, b, c in X[rng.integers(0, len(X), (20, 3))]:
        assert d(a, a) == 0
        assert d(a, b) >= 0
        assert d(a, b) == pytest.approx(d(b, a))
        assert d(a, c) <= d(a, b) + d(b, c) + 1e-12
        assert d(a, b, squared=True) == pytest.approx(d(a, b) ** 2)
        assert d(a[None], b[None]) == d(a, b)
        assert d(a, b) == pytest.approx(learned.pair_distance([[a, b]])[0], abs=1e-12)
    KNeighborsClassifier(metric=d).fit(X, y).predict(X[:3])
    before = d(X[0], X[60])
    learned.fit(X[numbers[:20]] * 2, None if sign is None else sign[:20])
    assert d(X[0], X[60]) == before  # independent of its learner
    for bad in (X[:2], X[None, :2], 3.0):
        with pytest.raises(ValueError, match="one point"):
            d(bad, X[0])


def test_a_metric_fitted_to_rows_predicts_tuples_once_it_has_a_threshold():
    metric = FrobMetric().fit(X, y)
    assert not hasattr(metric, "predict")
    pairs, sign = some_pairs()
    metric.calibrate_threshold(X[pairs], sign)
    assert np.mean(metric.predict(X[pairs]) == sign) > 0.8
    assert metric.set_threshold(0.0).threshold_ == 0
    assert set(metric.predict(X[pairs])) == {-1}
    assert_array_equal(metric.set_threshold(np.inf).predict(X[pairs]), 1)
    for wrong in ("no", None, [1.0, 2.0], object()):
        with pytest.raises(ValueError, match="must be a real number"):
            metric.set_threshold(wrong)


def test_score_of_rows_is_leave_one_out():
    metric = FrobMetric().fit(X, y)
    Z = metric.transform(X)
    D = np.linalg.norm(Z[:, None] - Z, axis=2)
    np.fill_diagonal(D, np.inf)
    assert metric.score(X, y) == pytest.approx(np.mean(y[D.argmin(1)] == y), abs=0.01)


def f_beta(sign, predicted, beta):
    found, weight = np.sum((predicted == 1) & (sign == 1)), beta**2
    wanted = weight * np.sum(sign == 1) + np.sum(predicted == 1)
    return (1 + weight) * found / max(wanted, 1)


def rates(sign, predicted):
    return np.mean(predicted[sign == 1] == 1), np.mean(predicted[sign == -1] == -1)


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_calibration_finds_the_best_threshold(seed, duplicates):
    pairs, sign = some_pairs(seed)
    sign = shuffle(sign, random_state=seed) if seed == 2 else sign
    if duplicates:
        pairs, sign = np.vstack([pairs, pairs]), np.append(sign, -sign)
    learned = FrobMetric().fit(X, y)
    distance = learned.pair_distance(X[pairs])
    tried = [-1.0, *np.unique(distance), distance.max() + 1]
    every = [np.where(distance <= t, 1, -1) for t in tried]

    def found(**how):
        return learned.calibrate_threshold(X[pairs], sign, **how).predict(X[pairs])

    assert np.mean(found() == sign) == pytest.approx(max(np.mean(p == sign) for p in every))
    for beta in (0.0, 0.5, 1.0, 2.0):
        best = max(f_beta(sign, p, beta) for p in every)
        reached = fbeta_score(sign, found(strategy="f_beta", beta=beta), beta=beta)
        assert reached == pytest.approx(best)
    assert_array_equal(found(strategy="f_beta"), found(strategy="f_beta", beta=1))
    for min_rate in (0.0, np.float32(0.3), 0.9, 1):
        best = max(rates(sign, p)[0] for p in every if rates(sign, p)[1] >= min_rate)
        true_positive, true_negative = rates(sign, found(strategy="max_tpr", min_rate=min_rate))
        assert true_positive == pytest.approx(best)
        assert true_negative >= min_rate
        best = max(rates(sign, p)[1] for p in every if rates(sign, p)[0] >= min_rate)
        true_positive, true_negative = rates(sign, found(strategy="max_tnr", min_rate=min_rate))
        assert true_negative == pytest.approx(best)
        assert true_positive >= min_rate


@pytest.mark.parametrize(
    ("how", "wrong"),
    [
        ({"strategy": "weird"}, "strategy"),
        ({"strategy": "max_tpr"}, "min_rate"),
        ({"strategy": "max_tnr", "min_rate": "high"}, "min_rate"),
        ({"strategy": "max_tnr", "min_rate": 2.0}, "min_rate"),
        ({"strategy": "max_tpr", "min_rate": -0.1}, "min_rate"),
        ({"strategy": "f_beta", "beta": "one"}, "beta"),
        ({"strategy": "f_beta", "beta": -1.0}, "beta"),
        ({"strategy": "max_fpr", "alpha": 0}, "alpha"),
        ({"strategy": "min_tpr", "alpha": "small"}, "alpha"),
        ({"strategy": "max_fpr", "confidence": 1.0}, "confidence"),
    ],
)
def test_calibration_names_what_is_wrong(how, wrong):
    pairs, sign = some_pairs()
    with pytest.raises(ValueError, match=wrong):
        FrobMetric().fit(X, y).calibrate_threshold(X[pairs], sign, **how)
    with pytest.raises(ValueError, match=wrong):
        DMLEig().fit(X[pairs], sign, calibration_params=how)


@pytest.mark.parametrize("strategy", ["max_fpr", "min_tpr"])
@pytest.mark.parametrize("alpha", [0.02, 0.2])
def test_predictions_keep_the_promise_on_the_pairs_that_set_it(
    strategy, alpha, dtype, asarray, seed
):
    rng = np.random.default_rng(seed)
    half = rng.permutation(150)
    pairs = rng.choice(half[75:], (900, 2))
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    sign, points = np.where(similar, 1, -1), asarray(X[pairs].astype(dtype))
    metric = FrobMetric(max_iter=30).fit(asarray(X[half[:75]].astype(dtype)), y[half[:75]])
    metric.calibrate_threshold(points, asarray(sign), strategy, alpha=alpha)
    promise = metric.threshold_promise_
    counted = similar if strategy == "min_tpr" else ~similar
    wrong = metric.predict(points)[counted] != sign[counted]
    assert (promise.n, promise.errors) == (len(wrong), wrong.sum())
    assert promise.bound <= alpha == promise.alpha and promise.strategy == strategy
    # another threshold, or another metric, has no promise
    assert metric.set_threshold(metric.threshold_).threshold_promise_ is None
    metric.calibrate_threshold(points, sign, strategy, alpha=alpha)
    assert metric.calibrate_threshold(points, sign).threshold_promise_ is None
    metric.calibrate_threshold(points, sign, strategy, alpha=alpha)
    metric.fit(asarray(X.astype(dtype)), y)
    assert metric.threshold_promise_ is None and not hasattr(metric, "threshold_")


@pytest.mark.parametrize(("strategy", "kind"), [("max_fpr", "dissimilar"), ("min_tpr", "similar")])
def test_a_promise_says_how_many_pairs_it_needs(strategy, kind):
    pairs, sign = some_pairs()
    n = int(np.sum(sign == (1 if kind == "similar" else -1)))
    metric = FrobMetric().fit(X, y).set_threshold(1.0)
    with pytest.raises(ValueError, match=f"at least 299 {kind} pairs; got {n}"):
        metric.calibrate_threshold(X[pairs], sign, strategy)
    assert metric.threshold_ == 1.0
    # pairs that the metric was learned from promise nothing
    with pytest.raises(ValueError, match="held-out pairs after fit"):
        DMLEig().fit(X[pairs], sign, calibration_params={"strategy": strategy, "alpha": 0.2})


@pytest.mark.parametrize("metric", [*METRICS, AutoMetric()], ids=ids)
@pytest.mark.costly
def test_a_new_fit_forgets_the_threshold(metric):
    learned = clone(metric).fit(X, y).set_threshold(3.0)
    assert not hasattr(learned.fit(X, y), "threshold_")


def test_a_fit_to_pairs_calibrates_on_them():
    pairs, sign = some_pairs()
    train, test, sign_train, sign_test = train_test_split(X[pairs], sign, random_state=0)
    metric = DMLEig().fit(train, sign_train)
    best = metric.threshold_
    assert metric.calibrate_threshold(train, sign_train).threshold_ == best
    strict = {"strategy": "max_tnr", "min_rate": 1.0}
    assert DMLEig().fit(train, sign_train, calibration_params=strict).threshold_ >= best
    assert f1_score(sign_test, metric.predict(test)) > 0.5
    scorer = make_scorer(fbeta_score, beta=2)
    assert np.isfinite(cross_val_score(DMLEig(), X[pairs], sign, scoring=scorer, cv=3)).all()


@pytest.mark.parametrize("metric", TRIPLET_METRICS, ids=ids)
def test_numbers_as_targets_make_certified_triplets(metric):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 4)) * [1, 1, 5, 5]
    value = Z[:, 0] + 0.01 * rng.normal(size=80)
    learned = clone(metric).fit(Z, value)
    i, j, k = learned.triplets_.T
    assert np.all(abs(value[i] - value[j]) < abs(value[i] - value[k]))
    assert learned.certificate_.meets(metric.tol)
    M = learned.get_mahalanobis_matrix()
    assert M[0, 0] * 1 > max(M[2, 2], M[3, 3]) * 5  # what the value depends on counts most


def test_constant_and_missing_targets_are_refused():
    with pytest.raises(ValueError, match="the single value"):
        triplets_from_values(X, np.full(len(X), 0.5))
    with pytest.raises(ValueError, match="NaN"):
        triplets_from_values(X, np.r_[np.nan, X[1:, 0]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FrobMetric().fit(X[some_pairs()[0]][:, [0, 1, 0, 1, 0]]), "holds 5 points"),
        (lambda: DMLEig().fit(X[some_triplets()], np.ones(60)), "holds 3 points"),
        (lambda: DMLEig().fit(X[some_pairs()[0]]), "need y"),
        (lambda: DMLEig().fit(X[some_pairs()[0]], np.full(80, 2)), "only -1 and 1"),
        (lambda: FrobMetric().fit(X[some_triplets()], triplets=some_triplets()), "as rows"),
        (lambda: FrobMetric(preprocessor=X).fit(some_triplets() + 100), "the preprocessor has"),
        (lambda: FrobMetricCV().fit(X[some_triplets()]), "GridSearchCV"),
        (lambda: FrobMetric().fit(X[some_triplets()]).predict(X), "2, 3 or 4 points"),
        (lambda: FrobMetric().fit(X, triplets=[[0, 0, 1, 2]]), "i == j"),
        (lambda: FrobMetric().fit(X, y).score(X), "labels"),
        (lambda: BoostMetric(n_passes=2).fit(X, X[:, 0] + 0.001), "n_passes"),
    ],
)
def test_wrong_tuples_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_similar_as_signs():
    assert_array_equal(check_similar([1, -1, 1], 3), [True, False, True])
    with pytest.raises(ValueError, match="only -1 and 1"):
        check_similar([1, -1, 0], 3)


@pytest.mark.parametrize("metric", TRIPLET_METRICS, ids=ids)
def test_triplet_metrics_learn_from_pairs(metric):
    pairs, sign = some_pairs(n=60)
    learned = clone(metric).fit(X, pairs=pairs, similar=sign)
    assert learned.certificate_.meets(metric.tol)
    new, new_sign = some_pairs(1, n=400)
    euclidean = -np.linalg.norm(X[new[:, 0]] - X[new[:, 1]], axis=1)
    assert learned.score(X[new], new_sign) >= roc_auc_score(new_sign, euclidean)
    assert np.mean(learned.predict(X[new]) == new_sign) > 0.85


@pytest.mark.parametrize("metric", TRIPLET_METRICS, ids=ids)
def test_triplet_metrics_learn_from_pairs_of_points(metric):
    """As from pairs of rows; so they go through scikit-learn's cross-validation."""
    pairs, sign = some_pairs(n=60)
    by_number = clone(metric).fit(X, pairs=pairs, similar=sign)
    for learned in (
        clone(metric).fit(X[pairs], sign),
        clone(metric).fit(X[pairs], sign > 0),
        clone(metric).set_params(preprocessor=X).fit(pairs, 1 * (sign > 0)),
    ):
        assert learned.objective_ == pytest.approx(by_number.objective_, rel=2e-3)
        assert learned.threshold_ == pytest.approx(by_number.threshold_, rel=1e-2)
        given = pairs if learned.preprocessor is not None else X[pairs]
        assert np.mean(learned.predict(given) == sign) > 0.85


def test_pairs_of_points_are_cross_validated():
    pairs, sign = some_pairs(n=60)
    assert cross_val_score(FrobMetric(), X[pairs], sign, cv=2).min() > 0.7
    assert cross_val_score(FrobMetric(), X[pairs], sign, cv=2, scoring="accuracy").min() > 0.6


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({}, "Pairs of points need y"),
        ({"y": [1, 1]}, "pairs of both kinds"),
        ({"y": [1, 0, 1]}, "one value for each of the 2 pairs"),
        ({"y": [1, 0], "triplets": [[0, 1, 2]]}, "pairs of points and triplets; pass X as rows"),
        ({"y": [1, 0], "neighbors": [[1], [2]]}, "pairs of points and neighbors; pass X as rows"),
    ],
)
def test_pairs_of_points_that_are_refused(given, fault):
    with pytest.raises(ValueError, match=fault):
        FrobMetric().fit(X[np.array([[0, 1], [0, 99]])], **given)


def test_comparisons_of_pairs_take_every_pair(seed):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(40, 2, replace=False) for _ in range(50)])
    similar = rng.random(50) < rng.uniform(0.05, 0.95)
    similar[:2] = True, False
    length = rng.random(50)
    compared = quadruplets_from_pairs(pairs, similar, length, 3)
    assert similar[compared[:, 0]].all()
    assert not similar[compared[:, 1]].any()
    assert len(np.unique(compared, axis=0)) == len(compared) <= 3 * 50
    ends = {tuple(sorted(pair)) for pair in pairs[similar].tolist()}
    ends &= {tuple(sorted(pair)) for pair in pairs[~similar].tolist()}
    if not ends:
        apart = np.flatnonzero(~similar)
        near = apart[np.argsort(length[apart])[: -(-len(apart) // 3)]]
        assert set(compared[:, 0]) == set(np.flatnonzero(similar))
        assert set(compared[:, 1]) == set(near)


def test_weights_of_pairs_are_those_of_their_comparisons():
    pairs, sign = some_pairs()
    weights = np.where(np.arange(len(pairs)) < 60, 1.0, 0.0)
    some = FrobMetric().fit(X, pairs=pairs[:60], similar=sign[:60])
    weighted = FrobMetric().fit(X, pairs=pairs, similar=sign, sample_weight=weights)
    assert weighted.objective_ == pytest.approx(some.objective_, rel=2e-3)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"pairs": [[0, 1], [0, 99]]}, "pairs without similar"),
        ({"similar": [1, 0]}, "similar without pairs"),
        ({"pairs": [[0, 1], [0, 99]], "similar": [1, 1]}, "pairs of both kinds"),
        ({"pairs": [[0, 1], [1, 0]], "similar": [1, 0]}, "contradict"),
        ({"pairs": [[0, 1], [0, 999]], "similar": [1, 0]}, "out of range"),
        ({"pairs": [[0, 1], [0, 99]], "similar": [1, 2]}, "similar must be boolean"),
        (
            {"pairs": [[0, 1], [0, 99]], "similar": [1, 0], "triplets": [[0, 1, 99]]},
            "pairs and triplets",
        ),
    ],
)
def test_pairs_that_nothing_can_be_learned_from_are_refused(given, fault):
    with pytest.raises(ValueError, match=fault):
        FrobMetric().fit(X, **given)
