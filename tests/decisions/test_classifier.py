"""MetricClassifier: choices, probabilities, sets and explanations."""

import pickle
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from cases import first_of
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted

from conemetric import AutoMetric, FrobMetric, MetricClassifier, MetricRegressor
from conemetric.automatic.automatic import PooledDiscriminant
from conemetric.automatic.folds import CrossFitted, stratified_folds
from conemetric.core.arrays import to_numpy
from conemetric.decisions import candidates, explaining
from conemetric.decisions.neighbors import NeighborVote
from conemetric.decisions.rule import Training
from conemetric.decisions.rules import RULES
from conemetric.engine import kernel_ridge
from conemetric.papers.gradients.gradient_metric import GradientRound, gradient_rounds

LDA = LinearDiscriminantAnalysis()
every_rule = pytest.mark.parametrize("rule", RULES)
every_metric = pytest.mark.parametrize("metric", [None, LDA], ids=["plain", "lda"])


def labelled(seed, n=60, D=4, n_classes=3):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    return rng.normal(size=(n, D)) + 1.5 * rng.normal(size=(n_classes, D))[y], y


def fitted(X, y, metric=None, rule="auto", **options):
    weight = options.pop("sample_weight", None)
    options = {"random_state": 0, **options}
    return MetricClassifier(metric, classifier=rule, **options).fit(X, y, sample_weight=weight)


@cache
def of_labelled(seed, metric=None, rule="auto"):
    """The model of these rows, once for all tests that only look at it."""
    return fitted(*labelled(seed), metric, rule)


searched_fully = cache(of_labelled.__wrapped__)  # in tests marked ``full_search``: other models


def shifted(X, y, rng):
    return X + 100, y, X + 100


def other_units(X, y, rng):
    factors = 10.0 ** rng.uniform(-3, 3, X.shape[1])
    return X * factors, y, X * factors


def reordered(X, y, rng):
    order = rng.permutation(len(X))
    return X[order], y[order], X


def with_a_constant(X, y, rng):
    Z = np.insert(X, 1, 0.1, axis=1)
    return Z, y, Z


@pytest.mark.cases(6)
@pytest.mark.full_search
@pytest.mark.parametrize("change", [shifted, other_units, reordered, with_a_constant])
@every_metric
@every_rule
def test_what_changes_no_prediction(change, metric, rule, seed):
    X, y = labelled(seed)
    before = searched_fully(seed, metric, rule)
    Z, z, queries = change(X, y, np.random.default_rng(seed))
    after = fitted(Z, z, metric, rule)
    assert [str(part.trial) for part in after.blend_.parts] == [
        str(part.trial) for part in before.blend_.parts
    ]
    np.testing.assert_allclose(
        after.predict_proba(queries), before.predict_proba(X), rtol=1e-4, atol=1e-6
    )


@every_rule
def test_the_order_of_rows_does_not_change_landmarks(rule, seed):
    X, y = labelled(seed)
    Z, z, _ = reordered(X, y, np.random.default_rng(seed))
    one, other = (fitted(*rows, None, rule, n_landmarks=20) for rows in ((X, y), (Z, z)))
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), rtol=1e-4, atol=1e-6)


@pytest.mark.turns(3)
@first_of(("n_landmarks", "rule"), [("auto", "auto"), (20, "kernel")])
def test_the_number_of_cores_changes_no_bit(n_landmarks, rule, monkeypatch, seed):
    """Also where a rule is judged again at full size, and where landmarks come in several blocks."""
    monkeypatch.setattr(kernel_ridge, "HELD", 300)
    X, y = labelled(seed, 250)
    found = []
    for cores in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", cores)
        model = fitted(X, y, "auto", rule, n_landmarks=n_landmarks)
        scores = model.decision_function(X).tobytes(), model.predict_proba(X).tobytes()
        found.append((*scores, [trial.loss for trial in model.trials_]))
    assert found[0] == found[1]


@every_rule
@pytest.mark.parametrize("rounded", [False, True])
def test_names_of_classes_do_not_matter(rounded, rule, seed):
    X, y = labelled(seed)
    X = np.round(X) if rounded else X  # many equal distances
    names, back = np.array(["c", "a", "b"]), [1, 2, 0]
    one, other = fitted(X, y, None, rule), fitted(X, names[y], None, rule)
    np.testing.assert_array_equal(other.predict(X), names[one.predict(X)])
    np.testing.assert_allclose(
        other.predict_proba(X), one.predict_proba(X)[:, back], rtol=1e-6, atol=1e-9
    )


@every_metric
@every_rule
def test_rows_of_weight_zero_are_left_out(metric, rule, seed):
    X, y = labelled(seed)
    there = np.random.default_rng(seed).random(len(X)) < 0.7
    weights = 2.0 * there
    one = fitted(X, y, metric, rule, sample_weight=weights)
    other = fitted(X[there], y[there], metric, rule)
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    rows = np.flatnonzero(there)
    assert np.array_equal(one.explain(X).rows, rows[other.explain(X).rows])


@every_rule
@pytest.mark.parametrize("n_classes", [2, 3])
def test_predictions_agree_with_each_other(n_classes, rule, asarray, dtype, seed):
    X, y = labelled(seed, n_classes=n_classes)
    model = fitted(asarray(X.astype(dtype)), y, None, rule)
    queries = asarray(X.astype(dtype) + dtype(0.3))
    probability = model.predict_proba(queries)
    np.testing.assert_allclose(probability.sum(1), 1)
    assert np.array_equal(model.predict(queries), model.classes_[probability.argmax(1)])
    decision = model.decision_function(queries)
    assert decision.shape == ((len(X),) if n_classes == 2 else (len(X), 3))
    first = (decision > 0).astype(int) if n_classes == 2 else decision.argmax(1)
    assert np.array_equal(first, model.predict(queries))
    assert np.array_equal(model.predict_proba(queries), probability)


@every_metric
@every_rule
@pytest.mark.costly
def test_kinds_of_rows(metric, rule, asarray, dtype):
    X, y = labelled(0)
    X[abs(X) < 0.5] = 0
    X = X.astype(dtype)
    expected = fitted(X.astype(float), y, metric, rule).predict_proba(X.astype(float))
    # kernels of held-out rows are in float32 and decide the temperature
    atol = 1e-5 if dtype == np.float64 else 1e-2
    for rows in (pd.DataFrame(X, columns=list("abcd")), asarray(X), sparse.csr_array(X)):
        model = fitted(rows, y, metric, rule)
        np.testing.assert_allclose(model.predict_proba(rows), expected, atol=atol)
    tensors = asarray(X.astype(float))  # of a model fitted to rows of another kind
    np.testing.assert_allclose(model.predict_proba(tensors), expected, atol=atol)


@every_metric
@every_rule
def test_pickle_and_clone(metric, rule, seed):
    X, y = labelled(seed)
    model = of_labelled(seed, metric, rule)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict_proba(X), model.predict_proba(X))
    refit = clone(model).fit(X, y)
    assert np.array_equal(refit.predict_proba(X), model.predict_proba(X))


# ---- the metric


@pytest.mark.parametrize(
    "metric", [FrobMetric(1.0), LDA, AutoMetric(candidates={"lda": LDA})], ids=["frob", "lda", "a"]
)
@every_rule
@pytest.mark.costly
def test_a_metric_of_the_user(metric, rule, asarray):
    X, y = load_iris(return_X_y=True)
    model = fitted(asarray(X), y, metric, rule)
    assert model.score(asarray(X), y) > 0.9
    assert {trial.metric for trial in model.trials_} == {"Euclidean", "learned"}
    assert not hasattr(metric, "classes_")  # the user's estimator stays unfitted
    assert type(model.metric_) is type(metric)
    assert len(model.metric_.transform(X)) == len(X)


def test_auto_learns_a_metric_that_suppresses_noise():
    X, y = make_classification(150, 12, n_informative=2, n_redundant=0, random_state=0)
    model = MetricClassifier(random_state=0).fit(X, y)
    assert isinstance(model.metric_, AutoMetric)
    assert (
        model.evidence_.error[model.evidence_.chosen] < model.evidence_.error[str(model.trials_[0])]
    )


def test_a_map_that_is_not_linear_is_refused():
    X, y = labelled(0)
    with pytest.raises(ValueError, match="PolynomialFeatures is not a linear map"):
        fitted(X, y, PolynomialFeatures())


@pytest.mark.parametrize("metric", ["cosine", 3, object(), FrobMetric])
@pytest.mark.parametrize("n", [6, 60])
def test_what_is_no_metric_is_refused(metric, n):
    X, y = labelled(0)
    with pytest.raises(TypeError, match="is not an estimator with fit and transform"):
        fitted(X[:n], y[:n], metric)


# ---- the choice


@pytest.mark.parametrize("cells", [6, 8])
@pytest.mark.costly
def test_a_vote_of_all_rows_is_preferred_to_a_kernel_with_too_few_landmarks(cells, seed):
    """On a chequerboard a kernel over all rows wins, one over twenty of them cannot follow."""
    X = np.random.default_rng(seed).uniform(0, cells, (600, 2))
    y = X.astype(int).sum(1) % 2
    rules = [fitted(X, y, None, "auto", n_landmarks=n).chosen_.rule for n in ("auto", 20)]
    assert not isinstance(rules[0], NeighborVote) and isinstance(rules[1], NeighborVote)


@every_rule
def test_held_out_scores_are_those_of_the_final_kind_of_rule(rule, seed):
    """Few landmarks make a worse rule, and the held-out rows see that one."""
    X, y = labelled(seed, 150)
    model = fitted(X, y, None, rule, n_landmarks=3)
    if rule == "kernel":
        assert model.explain(X, n=100).rows.shape == (len(X), 3)
    all_rows = next(trial for trial in model.trials_ if str(trial) == str(model.chosen_))
    differs = abs(all_rows.scores - model.chosen_.scores).max() > 1e-3
    assert differs == (rule == "kernel")


@pytest.mark.full_search
def test_evidence(seed):
    X, _ = labelled(seed)
    model = searched_fully(seed, LDA)
    evidence = model.evidence_
    assert evidence.n_rows == len(X)
    assert evidence.chosen == str(model.blend_) and evidence.chosen in evidence.error
    assert evidence.usual == "3 nearest neighbours, uniform weights, in the Euclidean metric"
    assert 0 <= evidence.p_value <= 1 and 0 <= evidence.calibration_error <= 1
    assert f"cross-validated on {len(X)} rows" in str(evidence)
    if model.certificate_ is not None:
        assert model.certificate_.status == "converged"


def test_evidence_of_classes_that_are_far_apart():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    X[:, 0] += 20 * y
    evidence = fitted(X, y, None).evidence_
    assert set(evidence.error.values()) == {0.0}
    assert evidence.calibration_error < 0.1


@every_rule
def test_one_row_per_class(rule):
    X = np.array([[0.0, 1.0], [1.0, 5.0], [4.0, 0.0]])
    model = fitted(X, ["a", "b", "c"], "auto", rule)
    assert model.evidence_ is None
    assert list(model.predict(X)) == ["a", "b", "c"]


# ---- weights


@every_rule
def test_class_weights_multiply_sample_weights(rule, seed):
    X, y = labelled(seed)
    factors = {0: 0.5, 1: 1.0, 2: 4.0}
    one = fitted(X, y, None, rule, class_weight=factors)
    other = fitted(X, y, None, rule, sample_weight=[factors[c] for c in y])
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@every_rule
def test_balanced_weights_give_rare_classes_more(rule, seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [180, 20])
    X = rng.normal(size=(200, 2)) + 1.2 * y[:, None]
    plain, balanced = (fitted(X, y, None, rule, class_weight=w) for w in (None, "balanced"))
    assert balanced.predict(X).sum() > plain.predict(X).sum()


@every_rule
def test_a_class_of_weight_zero_is_left_out(rule, seed):
    X, y = labelled(seed)
    model = fitted(X, y, None, rule, class_weight={2: 0.0})
    assert list(model.classes_) == [0, 1]
    assert np.isfinite(model.predict_proba(X)).all()


# ---- sets


@every_rule
def test_sets_grow_as_alpha_falls_and_hold_the_prediction(rule, seed):
    X, _ = labelled(seed)
    model = of_labelled(seed, None, rule)
    X = np.random.default_rng(seed).normal(size=(300, X.shape[1]))  # between the classes too
    sets = [model.predict_set(X, alpha) for alpha in (0.9, 0.5, 0.2, 0.1, 0.05)]
    for smaller, larger in pairwise(sets):
        assert not (smaller & ~larger).any()
    assert sets[0][np.arange(len(X)), model.predict_proba(X).argmax(1)].all()
    assert sets[-1].sum() > sets[0].sum()


@cache
def draws(n_train):
    """Models of 25 draws of one source, each with new rows and their classes."""
    found = []
    for draw in range(25):
        X, y = make_classification(
            n_train + 200, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=draw
        )
        model = fitted(X[:n_train], y[:n_train], None, random_state=draw)
        found.append((model, X[n_train:], y[n_train:]))
    return found


@pytest.mark.turns(2)
@first_of(("n_train", "alpha"), [(40, 0.1), (150, 0.3), (40, 0.3), (150, 0.1)])
def test_sets_hold_the_true_class_as_often_as_promised(alpha, n_train):
    """New rows of one draw share their training rows, so draws count."""
    held = [model.predict_set(X, alpha)[np.arange(200), y].mean() for model, X, y in draws(n_train)]
    standard_error = np.std(held, ddof=1) / len(held) ** 0.5
    assert np.mean(held) > 1 - alpha - stats.norm.ppf(0.999) * standard_error
    assert np.mean(held) < 1 - alpha / 4  # not by naming every class


# ---- why


@every_metric
@every_rule
def test_shares_over_all_rows(metric, rule, seed):
    X, _ = labelled(seed)
    model = of_labelled(seed, metric, rule)
    every = model.explain(X + 0.1, n=len(X))
    assert every.rows.shape == every.shares.shape == (len(X), len(X))
    np.testing.assert_allclose(abs(every.shares).sum(1), 1)
    some = model.explain(X + 0.1, n=4)
    assert np.array_equal(some.rows, every.rows[:, :4])
    assert np.array_equal(some.shares, every.shares[:, :4])
    assert (np.diff(abs(every.shares), axis=1) <= 0).all()


def relative(rule, A, Z):
    """What the kernel of a rule is a function of, between the rows of A and Z."""
    power = 1 if rule.by_columns else 2
    apart, mean = ((abs(B[:, None] - Z) ** power).sum(2) for B in (A, Z))
    return apart / mean.mean()


def in_metric(model, part, X):
    """The rows of X in the metric of a part."""
    rows = (X - model._preparation.centre) / model.scale_
    return rows if part.L is None else rows @ part.L


@every_metric
@pytest.mark.parametrize("by", ["terms", "targets"])
def test_shares_of_kernels_are_the_decision(metric, by, seed):
    """By scikit-learn's kernel ridge regression in the metric of each part: a score is a sum of terms,
    each the coefficient of a row times its kernel, and also a sum of targets with the weights of the
    smoother.
    """
    X, y = labelled(seed)
    model = of_labelled(seed, metric, "kernel")
    queries, Y = X + 0.1, 2.0 * np.eye(3)[y] - 1
    scores, terms = 0.0, []
    for part in model.blend_.parts:
        Z, new = (in_metric(model, part, rows) for rows in (X, queries))
        rule = part.trial.rule
        K, across = (rule.values(relative(rule, A, Z)) for A in (Z, new))
        peer = KernelRidge(alpha=rule.ridge, kernel="precomputed").fit(K, Y - Y.mean(0))
        scores = scores + part.weight * (across @ peer.dual_coef_ + Y.mean(0))
        if by == "terms":
            term = across[:, :, None] * peer.dual_coef_
        else:
            influence = np.linalg.solve(K + rule.ridge * np.eye(len(K)), across.T).T
            term = influence[:, :, None] * (Y - Y.mean(0))
        terms.append(part.weight * term)
    np.testing.assert_allclose(model.decision_function(queries), scores, atol=1e-6)
    first, second = np.argsort(-scores, axis=1)[:, :2].T
    of_first, of_second = (
        np.take_along_axis(sum(terms), each[:, None, None], axis=2)[:, :, 0]
        for each in (first, second)
    )
    parts = of_first - of_second
    centred = scores - Y.mean(0)
    expected = np.take_along_axis(centred, first[:, None], 1) - np.take_along_axis(
        centred, second[:, None], 1
    )
    np.testing.assert_allclose(parts.sum(1, keepdims=True), expected, atol=1e-6)
    parts /= abs(parts).sum(1, keepdims=True)
    every = model.explain(queries, n=len(X), by=by)
    found = np.zeros_like(parts)
    np.put_along_axis(found, every.rows, every.shares, axis=1)
    np.testing.assert_allclose(found, parts, atol=1e-6)


def test_naming_terms_takes_no_decomposition(monkeypatch):
    X, _ = labelled(0)
    model = of_labelled(0, None, "kernel")
    expected = model.explain(X + 0.1)

    def refuse(*args):
        raise AssertionError("a kernel matrix is decomposed")

    monkeypatch.setattr(kernel_ridge, "ridge_solver", refuse)
    found = model.explain(X + 0.1)
    np.testing.assert_array_equal(found.rows, expected.rows)
    with pytest.raises(AssertionError, match="decomposed"):
        model.explain(X + 0.1, by="targets")


def test_targets_of_landmarks_are_refused():
    X, y = labelled(0)
    model = fitted(X, y, rule="kernel", n_landmarks=20)
    assert model.explain(X).rows.shape == (len(X), 5)
    with pytest.raises(ValueError, match=r"by='targets' .* 20 landmarks; pass by='terms'"):
        model.explain(X, by="targets")


def test_explanations_come_in_blocks(monkeypatch):
    X, _ = labelled(0)
    model = of_labelled(0)
    whole = model.explain(X + 0.1)
    monkeypatch.setattr(explaining, "MAX_HELD", 7 * explaining.N_ARRAYS * len(X))
    parts = model.explain(X + 0.1)
    np.testing.assert_array_equal(parts.rows, whole.rows)
    np.testing.assert_allclose(parts.shares, whole.shares)
    np.testing.assert_allclose(parts.nearness, whole.nearness)


@pytest.mark.parametrize("n", [1, 3, 8, 20])
def test_the_largest_numbers_come_as_a_stable_sort_has_them(n, seed):
    sizes = np.random.default_rng(seed).integers(0, 5, (30, 20)).astype(float)
    expected = np.argsort(-sizes, axis=1, kind="stable")[:, :n]
    np.testing.assert_array_equal(explaining.largest(sizes, n), expected)


@every_rule
def test_decide_says_what_each_method_says(rule):
    X, _ = labelled(0)
    model = of_labelled(0, None, rule)
    found = model.decide(X + 0.1, alpha=0.2, n_rows=3)
    np.testing.assert_array_equal(found.values, model.predict(X + 0.1))
    np.testing.assert_array_equal(found.probabilities, model.predict_proba(X + 0.1))
    np.testing.assert_array_equal(found.sets, model.predict_set(X + 0.1, 0.2))
    np.testing.assert_array_equal(found.explanation.shares, model.explain(X + 0.1, 3).shares)
    assert found.intervals is None and model.decide(X).explanation is None
    with pytest.raises(ValueError, match="by='words' must be one of 'terms', 'targets'"):
        model.decide(X, n_rows=3, by="words")
    with pytest.raises(ValueError, match="n_rows=-1 must be an integer, at least 0"):
        model.decide(X, n_rows=-1)


def test_shares_of_a_vote_are_the_decision(seed):
    X, _ = labelled(seed)
    model = of_labelled(seed, None, "neighbors")
    scores = model.decision_function(X + 0.1)
    ordered = np.sort(scores, axis=1)
    difference = ordered[:, -1] - ordered[:, -2]
    signs = np.sign(model.explain(X + 0.1, n=len(X)).shares)
    assert isinstance(model.chosen_.rule, NeighborVote)
    assert (abs(signs).sum(1) <= model.chosen_.rule.n_neighbors).all()
    # as much for as against where two classes tie, all for where one class has all votes
    spoke = model.explain(X + 0.1, n=len(X)).shares.sum(1)
    np.testing.assert_array_equal(np.sign(np.round(spoke, 6)), np.sign(np.round(difference, 6)))


@every_metric
@every_rule
def test_nearness_adds_up_to_one_minus_the_relative_distance(metric, rule, seed):
    X, _ = labelled(seed)
    model = of_labelled(seed, metric, rule)
    why = model.explain(X + 0.1, n=7)
    expected = 0.0
    for part in model.blend_.parts:
        Z, new = (in_metric(model, part, rows) for rows in (X, X + 0.1))
        apart = relative(part.trial.rule, new, Z)
        expected = expected + part.weight * (1 - np.take_along_axis(apart, why.rows, axis=1))
    np.testing.assert_allclose(why.nearness.sum(2), expected, atol=1e-8)
    assert why.nearness.shape == (len(X), 7, X.shape[1])


# ---- errors


def test_one_class_is_refused():
    with pytest.raises(
        ValueError, match="y has one class, 'a'; a classifier needs at least two classes"
    ):
        fitted(np.eye(3), ["a"] * 3)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, np.nan, "0.1", None, [0.1]])
def test_alpha_is_between_0_and_1(alpha):
    X, _ = labelled(0)
    with pytest.raises(ValueError, match="must be a number between 0 and 1"):
        of_labelled(0).predict_set(X, alpha)


def test_sets_need_enough_held_out_rows():
    X, y = labelled(0)
    model = fitted(X[:30], y[:30])
    model.predict_set(X, 1 / 31)
    with pytest.raises(ValueError, match=r"alpha=0.01 needs 99 held-out rows, and there are 30"):
        model.predict_set(X, 0.01)


def test_other_columns_and_too_few_rows_to_name_are_refused():
    X, y = labelled(0)
    model = of_labelled(0)
    with pytest.raises(ValueError, match="X has 3 features, but MetricClassifier is expecting 4"):
        model.predict(X[:, :3])
    for n in (0, -1, 1.5, "3", None):
        with pytest.raises(ValueError, match=f"n={n!r} must be an integer, at least 1"):
            model.explain(X, n=n)
    with pytest.raises(ValueError, match="y has 59 entries for 60 rows"):
        fitted(X, y[:-1])
    with pytest.raises(ValueError, match="class_weight names 7"):
        fitted(X, y, class_weight={7: 1.0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sample_weight": ["heavy"] * 60},
            "sample_weight must hold one number for each of the 60",
        ),
        ({"sample_weight": "balanced"}, "sample_weight must hold one number"),
        ({"sample_weight": np.r_[1e-13, np.ones(59)]}, "is 1.0e-13 of the largest; set weights"),
        ({"class_weight": {0: -1}}, "class_weight holds -1.0"),
        ({"class_weight": {0: "heavy"}}, "class_weight must hold one number for each of the 3"),
        ({"class_weight": {0: 0, 1: 0, 2: 0}}, "class_weight is zero for all 3 classes"),
    ],
)
def test_unusable_weights_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(*labelled(0), **options)


@pytest.mark.parametrize("size", [1e-320, 1e-100, 1e300, 1e308])
def test_only_the_ratios_of_weights_matter(size):
    X, y = labelled(0)
    expected = of_labelled(0).predict_proba(X)
    found = fitted(X, y, sample_weight=np.full(60, size)).predict_proba(X)
    np.testing.assert_array_equal(found, expected)


def test_masked_labels_are_refused():
    X, y = labelled(0)
    with pytest.raises(ValueError, match="y has 20 masked entries"):
        fitted(X, np.ma.array(y, mask=y == 0))


# ---- the certificate

HARD = {
    "moved": lambda X, rng: X + 1e4,
    "near repeats": lambda X, rng: np.repeat(X[::2], 2, axis=0) + 1e-9 * rng.normal(size=X.shape),
    "equal distances": lambda X, rng: np.round(X),
    "one column far": lambda X, rng: X + np.eye(4)[0] * 1e5,
    "units": lambda X, rng: X * [1e-8, 1, 1, 1e8],
}


@pytest.mark.cases(6)
@pytest.mark.parametrize("kind", HARD)
def test_the_certificate_holds_for_the_stored_model_and_the_given_rows(kind, asarray, dtype, seed):
    """Residual of the system with distances taken row by row in float64, from the user's rows."""
    X, y = labelled(seed, n=30)
    X = HARD[kind](X, np.random.default_rng(seed)).astype(dtype)
    model = fitted(asarray(X), y, LDA, "kernel")
    scale, centre = (
        to_numpy(part).astype(np.float64) for part in (model.scale_, model._preparation.centre)
    )
    target = 2.0 * np.eye(3)[y] - 1
    for part in model.blend_.parts:
        rows = (X.astype(np.float64) - centre) / scale
        rows = rows if part.L is None else rows @ part.L.astype(np.float64)
        model_sum, rule = part.fitted.model, part.trial.rule
        points, a, offset = (
            to_numpy(each) for each in (model_sum.points, model_sum.coefficients, model_sum.offset)
        )
        power = 1 if rule.by_columns else 2
        K = rule.values((abs(rows[:, None] - points) ** power).sum(2) / model_sum.scale)
        residual = target - offset - K @ a
        gap = 0.5 * ((residual - rule.ridge * a) ** 2).sum()
        primal = 0.5 * (residual**2).sum() + 0.5 * rule.ridge * (a * (K @ a)).sum()
        certificate = part.certificate
        assert certificate.status == "converged" and certificate.relative_gap <= 1e-6
        assert primal == pytest.approx(certificate.primal, rel=1e-4)
        assert gap <= 1e-6 * primal


@pytest.mark.costly
@pytest.mark.parametrize("labels", [["apple", "pear", "plum"], [-1, 0, 7]])
def test_a_warning_about_small_classes_names_the_label(labels):
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.repeat(labels, (2, 18, 20))
    with pytest.warns(UserWarning, match="classes have . or fewer rows") as caught:
        classifier = MetricClassifier(random_state=0).fit(X, y)
    assert list(classifier.classes_) == labels
    if labels[0] != -1:  # which would mean "no label" to a metric
        assert f"(first: {labels[0]!r})" in str(caught[0].message)


def test_gradient_metrics_of_all_rows_are_learned_from_every_class(monkeypatch):
    """Where not all rows can be learned from, those that are do not depend on the order of rows."""
    monkeypatch.setattr(candidates, "MOST_WORK", 1.0)
    monkeypatch.setattr(candidates, "FEWEST_ROWS", 40)
    X, y = load_wine(return_X_y=True)  # sorted by class
    rows = Training(X / X.std(0), np.eye(3)[y], np.ones(len(y)), np.arange(len(y)))
    drawn = np.random.default_rng(0).permutation(len(y))
    fitted = CrossFitted(stratified_folds(drawn, y, 3), [])
    learned_from = []
    monkeypatch.setattr(
        candidates,
        "gradient_rounds",
        lambda Z, Y, *args, **kwargs: learned_from.append(Y) or [GradientRound(np.eye(13), None)],
    )
    last = candidates.candidates_for(rows, fitted, None, None, gradients=True)[-1]
    last.final()
    assert len(learned_from[-1]) == 40
    assert (learned_from[-1].sum(0) >= 9).all()


@pytest.mark.full_search
def test_rounds_of_gradients_are_learned_when_they_are_asked_for(monkeypatch):
    X, y = load_wine(return_X_y=True)
    rows = Training(X / X.std(0), np.eye(3)[y], np.ones(len(y)), np.arange(len(y)))
    drawn = np.random.default_rng(0).permutation(len(y))
    folds = stratified_folds(drawn, y, 3)
    learned = []

    def counted(*args, **kwargs):
        for each in gradient_rounds(*args, **kwargs):
            learned.append(each)
            yield each

    monkeypatch.setattr(candidates, "gradient_rounds", counted)
    fitted = CrossFitted(folds, [])
    *_, last = candidates.candidates_for(rows, fitted, None, None, gradients=True)
    assert not learned
    for f, fold in enumerate(folds):
        every = list(gradient_rounds(*_given(rows, fold.train), "laplacian", n_rounds=4))
        for L, expected in zip(last.runs[f], every, strict=True):
            np.testing.assert_array_equal(L, expected.L)
    del learned[:]
    candidate = last.at(1, [np.eye(13)] * 3)
    assert candidate.name == "laplacian gradient (round 2)"
    assert candidate.final().shape == (13, 13)
    assert len(learned) == 2


def _given(rows, chosen):
    return rows.Z[chosen].astype(np.float32), rows.Y[chosen], rows.weights[chosen]


@pytest.mark.costly
@pytest.mark.parametrize("rule", ["neighbors", "kernel"])
def test_gradient_metrics_are_learned_for_kernels_only(rule, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "conemetric.decisions.choice.candidates_for",
        lambda *args: asked.append(args[-1]) or candidates.candidates_for(*args[:-1], False),
    )
    X, y = load_wine(return_X_y=True)
    MetricClassifier(classifier=rule, random_state=0).fit(X[::3], y[::3])
    assert asked == [rule == "kernel"]


@pytest.fixture
def rules():
    """The table of rules, restored in its order."""
    before = dict(RULES)
    yield RULES
    RULES.clear()
    RULES.update(before)


def test_a_rule_of_ones_own_takes_part(rules):
    """An entry of `RULES` is searched, blended and chosen among like the others."""

    class Again(NeighborVote):
        name = "again"

    others = dict(rules)
    rules.clear()
    rules.update({"again": Again, **others})
    X, y = make_classification(80, 4, random_state=0)
    classifier = MetricClassifier(metric=None, random_state=0).fit(X, y)
    assert any(type(trial.rule) is Again for trial in classifier.trials_)
    assert classifier.predict(X).shape == (80,)


@pytest.mark.parametrize("gap", [None, np.nan])
@pytest.mark.parametrize("decision", [MetricClassifier, MetricRegressor])
def test_a_missing_label_is_named(decision, gap):
    X, y = labelled(0)
    for given in (y.astype(object), y.astype(float)):
        given[7] = gap
        with pytest.raises(ValueError, match=r"1 missing label \(first: row 7\); drop those rows"):
            decision().fit(X, given)


DAYS = np.datetime64("2021-03-04") + np.arange(60) % 3
TIMES = {
    "dates": DAYS,
    "nanoseconds": DAYS.astype("datetime64[ns]"),
    "durations": DAYS - DAYS[0],
    "objects": DAYS.astype(object),
    "timestamps": pd.Series(DAYS).astype(object),
    "time zone": pd.Series(DAYS.astype("datetime64[ns]")).dt.tz_localize("UTC"),
}


@pytest.mark.parametrize("times", TIMES)
def test_dates_are_refused_before_work_starts(times):
    X, _ = labelled(0)
    y = TIMES[times]
    with pytest.raises(ValueError, match=r"y holds dates or durations.*y\.astype\(str\)"):
        MetricClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"y holds dates or durations.*days"):
        MetricRegressor().fit(X, y)
    classifier = fitted(X, np.asarray(y.astype(str), dtype=str))  # the remedy
    assert set(classifier.predict(X)) <= set(y.astype(str))


def test_labels_that_no_file_can_keep_are_refused():
    X, y = labelled(0)
    with pytest.raises(TypeError, match=r"labels y of dtype .* cannot be saved; pass text"):
        MetricClassifier().fit(X, y.astype(np.longdouble))


def test_quantities_are_sent_to_the_regressor():
    X, y = labelled(0)
    with pytest.raises(ValueError, match=r"Unknown label type.* use MetricRegressor"):
        MetricClassifier().fit(X, y + 0.25 * X[:, 0])


def test_ctrl_c_ends_the_fit_and_hands_on_the_blend_so_far(monkeypatch):
    def press(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(PooledDiscriminant, "fit", press)
    monkeypatch.setattr(MetricClassifier, "_row_losses", None)  # nothing is judged after it
    classifier = MetricClassifier(random_state=0)
    with pytest.raises(KeyboardInterrupt) as pressed:
        classifier.fit(*load_iris(return_X_y=True))
    metric = pressed.value.metric
    assert metric.interrupted_ and "lda" not in metric.weights_
    assert vars(classifier) == vars(MetricClassifier(random_state=0))
    with pytest.raises(NotFittedError):
        check_is_fitted(classifier)
