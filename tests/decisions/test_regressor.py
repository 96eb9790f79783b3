"""MetricRegressor: predictions, intervals and explanations."""

import pickle
from functools import cache

import numpy as np
import pytest
from cases import first_of
from scipy import sparse, stats
from sklearn.cross_decomposition import PLSRegression

from conemetric import FrobMetric, MetricRegressor
from conemetric.decisions.rules import RULES

every_rule = pytest.mark.parametrize("rule", RULES)


def curve(seed, n=60, D=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def fitted(X, y, metric=None, rule="auto", **options):
    weight = options.pop("sample_weight", None)
    options = {"random_state": 0, **options}
    return MetricRegressor(metric, regressor=rule, **options).fit(X, y, sample_weight=weight)


@cache
def unchanged(rule, seed):
    X, y = curve(seed)
    return fitted(X, y, None, rule).predict(X)


@pytest.mark.cases(6)
@pytest.mark.full_search
@pytest.mark.parametrize("change", ["order", "shift", "units", "origin of y", "unit of y"])
@every_rule
def test_what_changes_no_prediction(change, rule, seed):
    X, y = curve(seed)
    before = unchanged(rule, seed)
    order, factors = np.random.default_rng(seed).permutation(len(X)), np.array([1e-3, 1.0, 1e3])
    Z, z, queries, back = {
        "order": (X[order], y[order], X, lambda values: values),
        "shift": (X + 10, y, X + 10, lambda values: values),
        "units": (X * factors, y, X * factors, lambda values: values),
        "origin of y": (X, y + 100, X, lambda values: values - 100),
        "unit of y": (X, 1e3 * y, X, lambda values: values / 1e3),
    }[change]
    np.testing.assert_allclose(back(fitted(Z, z, None, rule).predict(queries)), before, atol=1e-6)


@every_rule
def test_kinds_of_rows_and_copies(rule, asarray, dtype, seed):
    X, y = curve(seed)
    X[abs(X) < 0.3] = 0
    X = X.astype(dtype)
    expected = fitted(X.astype(float), y, None, rule).predict(X.astype(float))
    # the weights of a blend come from held-out kernels in float32
    atol = 1e-3 if dtype == np.float32 else 1e-4 if rule == "kernel" else 1e-8
    for rows in (asarray(X), sparse.csr_array(X)):
        model = pickle.loads(pickle.dumps(fitted(rows, y, None, rule)))
        np.testing.assert_allclose(model.predict(rows), expected, atol=atol)


@every_rule
def test_rows_of_weight_zero_are_left_out(rule, seed):
    X, y = curve(seed)
    there = np.arange(len(X)) % 4 > 0
    one = fitted(X, y, None, rule, sample_weight=1.0 * there)
    other = fitted(X[there], y[there], None, rule)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-12)
    assert np.array_equal(one.explain(X).rows, np.flatnonzero(there)[other.explain(X).rows])


@cache
def draws():
    """Models of 20 draws, each with new rows and their numbers."""
    rows = [curve(draw, 300) for draw in range(20)]
    return [
        (fitted(X[:100], y[:100], random_state=draw), X[100:], y[100:])
        for draw, (X, y) in enumerate(rows)
    ]


@pytest.mark.turns(2)
@first_of("alpha", [0.1, 0.3])
def test_intervals_hold_the_true_number_as_often_as_promised(alpha):
    held = []
    for model, X, y in draws():
        lower, upper = model.predict_interval(X, alpha).T
        held.append(((lower <= y) & (y <= upper)).mean())
    standard_error = np.std(held, ddof=1) / len(held) ** 0.5
    assert np.mean(held) > 1 - alpha - stats.norm.ppf(0.999) * standard_error
    assert np.mean(held) < 1 - alpha / 4


@every_rule
def test_explanations(rule, seed):
    """Shares of all rows add up to what moves the prediction away from the mean of y, up or down."""
    X, y = curve(seed)
    model = fitted(X, y, None, rule)
    why = model.explain(X + 0.1, n=len(X))
    np.testing.assert_allclose(abs(why.shares).sum(1), 1)
    moved = model.predict(X + 0.1) - y.mean()
    assert (moved < 0).any() and (moved > 0).any()
    assert np.array_equal(why.shares.sum(1) > 0, moved != 0)
    expected = 0.0
    for part in model.blend_.parts:
        Z, new = (rows / model.scale_ for rows in (X, X + 0.1))
        power = 1 if part.trial.rule.by_columns else 2
        apart, mean = (
            (abs(rows - points) ** power).sum(2)
            for rows, points in ((new[:, None], Z[why.rows]), (Z[:, None], Z))
        )
        expected = expected + part.weight * (1 - apart / mean.mean())
    np.testing.assert_allclose(why.nearness.sum(2), expected, atol=1e-8)


def test_decide_says_what_each_method_says():
    X, y = curve(0)
    model = fitted(X, y)
    found = model.decide(X + 0.1, alpha=0.2, n_rows=3)
    np.testing.assert_array_equal(found.values, model.predict(X + 0.1))
    np.testing.assert_array_equal(found.intervals, model.predict_interval(X + 0.1, 0.2))
    np.testing.assert_array_equal(found.explanation.rows, model.explain(X + 0.1, 3).rows)
    assert found.probabilities is None and found.sets is None


@pytest.mark.cases(3)
@pytest.mark.full_search
@pytest.mark.parametrize("n", [19, 20, 60])
@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_intervals_take_the_quantile_that_counts_the_new_row(n, alpha):
    """Of n residuals the one with rank ceil((1 - alpha)(n + 1)); one less would promise too much."""
    X, y = curve(0, n)
    model = fitted(X, y)
    half = np.ptp(model.predict_interval(X, alpha), axis=1) / 2
    rank = int(np.ceil((1 - alpha) * (n + 1) - 1e-9))
    residuals = model.state()["held_out"]
    np.testing.assert_allclose(half, np.sort(residuals)[rank - 1])
    # half the width of an interval is rounded
    more, less = half[0] * (1 + 1e-9), half[0] * (1 - 1e-9)
    assert np.sum(residuals <= more) >= rank > np.sum(residuals < less)


@pytest.mark.parametrize("metric", ["auto", FrobMetric(1.0)], ids=["auto", "frob"])
def test_a_learned_metric_is_stored_fitted(metric):
    X, y = curve(0, D=6)
    model = fitted(X, y, metric)
    assert isinstance(model.metric_, FrobMetric)
    assert model.metric_.transform(X).shape[0] == len(X)
    assert {trial.metric for trial in model.trials_} >= {"Euclidean", "learned"}
    assert f"cross-validated on {len(X)} rows" in str(model.evidence_)


@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("metric", ["cosine", 3])
def test_what_is_no_metric_is_refused(metric, n):
    X, y = curve(0, n)
    with pytest.raises(TypeError, match="is not an estimator with fit and transform"):
        fitted(X, y, metric)


def test_another_linear_map(seed):
    X, y = curve(seed)
    assert isinstance(fitted(X, y, PLSRegression(2)).metric_, PLSRegression)


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_a_constant_target_is_predicted(value):
    X, _ = curve(0)
    np.testing.assert_allclose(fitted(X, np.full(len(X), value)).predict(X + 1), value)


PLACES = {
    "one binary column": np.array([[0.0], [1.0]]),
    "two binary columns": np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]),
    "one row differs": np.eye(160)[:, :1],
}


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", PLACES)
@every_rule
def test_where_too_many_rows_are_equal_there_is_no_learned_metric(kind, rule, seed):
    X = PLACES[kind][np.arange(160) % len(PLACES[kind])]
    y = X[:, 0] + 0.1 * np.random.default_rng(seed).normal(size=160)
    model = fitted(X, y, "auto", rule)
    assert model.metric_ is None
    assert "learned" not in {trial.metric for trial in model.trials_}
    np.testing.assert_allclose(model.predict(X), fitted(X, y, None, rule).predict(X), atol=0.05)
    with pytest.raises(ValueError, match="pass C as a number"):
        fitted(X, y, FrobMetric(), rule)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e7])
def test_rows_that_all_coincide_are_refused(value, asarray):
    X, y = asarray(np.full((30, 2), value)), np.arange(30.0)
    with pytest.raises(ValueError, match=r"all 30 rows of X coincide.*metric=None"):
        fitted(X, y, "auto")
    np.testing.assert_allclose(fitted(X, y).predict(X), y.mean())


def test_intervals_need_enough_held_out_rows():
    X, y = curve(0)
    model = fitted(X, y)
    with pytest.raises(ValueError, match=r"alpha=0.01 needs 99 held-out rows, and there are 60"):
        model.predict_interval(X, 0.01)
    with pytest.raises(ValueError, match="must be a number between 0 and 1"):
        model.predict_interval(X, 1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda y: np.where(y > 0, "high", "low"), "y must hold numbers .*use MetricClassifier"),
        (lambda y: np.where(y > 0, np.nan, y), "missing labels"),
        (lambda y: 1e300 * y, "y spreads over .* rescale it"),
        (lambda y: 1e-300 * y, "y spreads over .* rescale it"),
        (lambda y: np.ma.array(y, mask=y > 0), "masked entries"),
    ],
    ids=["words", "nan", "huge", "tiny", "masked"],
)
def test_targets_that_are_no_usable_numbers_are_refused(change, message):
    X, y = curve(0)
    with pytest.raises(ValueError, match=message):
        fitted(X, change(y))


@pytest.mark.parametrize("n_features", [3, 201])
def test_city_blocks_follow_columns_one_by_one(n_features, asarray, seed):
    """Steps of single columns are smooth to the kernel of city block distances alone; it is not
    tried with very many features, nor in a learned metric.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (150, n_features))
    y = np.floor(X[:, 0]) + np.floor(X[:, 1])
    metric = "auto" if n_features == 3 else None
    model = MetricRegressor(metric, random_state=0).fit(asarray(X), y)
    tried = {(trial.metric, getattr(trial.rule, "kernel", None)) for trial in model.trials_}
    assert ("learned", "city block") not in tried
    assert (("Euclidean", "city block") in tried) == (n_features == 3)
    if n_features == 3:
        assert model.chosen_.rule.kernel == "city block"


@pytest.mark.full_search
@pytest.mark.parametrize("n, n_partitions", [(60, 3), (500, 3), (501, 2), (751, 1)])
def test_few_rows_are_held_out_in_several_partitions_and_judge_once(n, n_partitions):
    X, y = curve(0, n)
    regressor = MetricRegressor(None, regressor="neighbors", random_state=0)
    folds = regressor._folds(X, y, np.random.RandomState(0), None)
    times = np.bincount(np.concatenate([fold.held_out for fold in folds]), minlength=n)
    assert (times == n_partitions).all()
    assert all(not set(fold.train) & set(fold.held_out) for fold in folds)
    regressor.fit(X, y)
    assert regressor.n_held_out_ == regressor.evidence_.n_rows == n
    assert {len(each.scores) for each in regressor.trials_} == {n}


def test_evidence_is_about_the_held_out_residuals():
    X, y = curve(0)
    model = fitted(X, 3 * y)
    evidence, residuals = model.evidence_, model._conformal_scores
    error = (residuals**2).mean() ** 0.5
    assert evidence.error[evidence.chosen] == pytest.approx(error)
    assert evidence.r2 == pytest.approx(1 - error**2 / (3 * y).var())
    assert evidence.error[evidence.usual] > error
