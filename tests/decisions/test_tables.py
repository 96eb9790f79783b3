"""Decisions from tables: words, gaps, columns by name."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from conemetric import MetricClassifier, MetricRegressor, load_decision, save_decision

KINDS = {"classes": MetricClassifier, "numbers": MetricRegressor}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_frame = pytest.mark.parametrize(
    "frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"]
)


def table(seed, n=90):
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "green", "blue"], n)
    size = rng.normal(size=n)
    gaps = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    columns = {"colour": colour, "size": size, "gaps": gaps, "old": rng.random(n) < 0.5}
    return columns, size + 2 * (colour == "red")


def fitted(kind, frame, seed=0, **options):
    columns, y = table(seed)
    y = np.where(y > np.median(y), "high", "low") if kind == "classes" else y
    return KINDS[kind](None, random_state=0, **options).fit(frame(columns), y), frame(columns), y


@every_frame
@every_kind
def test_words_and_gaps_are_learned_from(kind, frame):
    model, X, y = fitted(kind, frame)
    assert model.score(X, y) > 0.8
    assert list(model.feature_names_in_) == ["colour", "size", "gaps", "old"]
    assert model.explain(X, n=2).nearness.shape == (90, 2, 4)


@every_kind
def test_an_array_with_gaps_explains_by_column(kind):
    columns, y = table(0)
    X = np.column_stack([columns["size"], columns["gaps"]])
    y = y > np.median(y) if kind == "classes" else y
    found, named = (
        KINDS[kind](None, random_state=0).fit(rows, y).explain(rows, n=2)
        for rows in (X, pd.DataFrame(X, columns=["size", "gaps"]))
    )
    np.testing.assert_array_equal(found.nearness, named.nearness)
    assert found.columns is None
    assert named.columns == ("size", "gaps")


@every_frame
@every_kind
def test_columns_are_found_by_name(kind, frame, tmp_path):
    model, X, _ = fitted(kind, frame)
    save_decision(tmp_path / "d.safetensors", model)
    loaded = load_decision(tmp_path / "d.safetensors")
    columns, _ = table(0)
    reordered = frame({name: columns[name] for name in reversed(columns)} | {"more": [0.0] * 90})
    for each in (model, loaded):
        np.testing.assert_array_equal(each.predict(reordered), model.predict(X))
        without = frame({name: columns[name] for name in columns if name != "gaps"})
        with pytest.raises(
            ValueError, match="X has no column 'gaps', which was present during fit; add it"
        ):
            each.predict(without)
    why, again = model.explain(X, n=3), loaded.explain(reordered, n=3)
    np.testing.assert_array_equal(why.rows, again.rows)
    np.testing.assert_array_equal(why.nearness, again.nearness)
    assert why.columns == again.columns == ("colour", "size", "gaps", "old")


@every_frame
@every_kind
def test_dates_are_learned_from(kind, frame):
    columns, y = table(0)
    days = np.datetime64("2020-01-01") + np.random.default_rng(1).permutation(90) * 20
    y = y + (days > np.datetime64("2022-06-01")) * 9
    y = np.where(y > np.median(y), "high", "low") if kind == "classes" else y
    X = frame({**columns, "when": days.astype("datetime64[us]")})
    model = KINDS[kind](None, random_state=0).fit(X, y)
    assert "date" in [block.kind for block in model.encoder_.blocks_]
    assert model.score(X, y) > 0.8


@every_kind
def test_names_that_come_twice_are_refused(kind):
    model, X, y = fitted(kind, pd.DataFrame)
    twice = X.iloc[:, [0, 1, 1, 2, 2, 3]]
    for use in (lambda: model.predict(twice), lambda: KINDS[kind]().fit(twice, y)):
        with pytest.raises(ValueError, match="more than one column 'size', 'gaps'; rename them"):
            use()


@every_kind
def test_unseen_categories_and_new_gaps_are_at_the_centre(kind):
    model, X, _ = fitted(kind, pd.DataFrame)
    X = X.assign(colour="violet", size=np.nan)
    with pytest.warns(
        UserWarning, match="not seen during fit: 'violet' .*; they are encoded at the column mean"
    ) as told:
        assert len(model.predict(X)) == len(X)
    assert len(told) == 1


@every_kind
def test_arrays_with_gaps_or_categories(kind, seed):
    columns, y = table(seed)
    X = np.column_stack([columns["size"], columns["gaps"], columns["old"]])
    y = y > np.median(y) if kind == "classes" else y
    model = KINDS[kind](None, random_state=0).fit(X, y)
    assert model.encoder_ is not None and model.n_features_in_ == 3
    numbers = np.nan_to_num(X)
    assert KINDS[kind](None, random_state=0).fit(numbers, y).encoder_ is None
    model = KINDS[kind](None, random_state=0, categorical_features=[2]).fit(numbers, y)
    assert [block.kind for block in model.encoder_.blocks_] == ["number", "number", "category"]
    with pytest.raises(ValueError, match="infinity"):
        KINDS[kind](None).fit(np.where(np.isnan(X), np.inf, X), y)


def test_blocks_share_the_weights_of_a_column(seed):
    columns, y = table(seed)
    model = MetricRegressor(random_state=0, regressor="kernel").fit(pd.DataFrame(columns), y)
    for part in model.blend_.parts:
        if part.trial.metric.startswith("column weights"):
            for block in model.encoder_.blocks_:
                weights = np.diag(part.L)[block.features]
                np.testing.assert_allclose(weights, weights[0], rtol=1e-5)


@pytest.mark.parametrize("n_classes", [30, 60])
def test_classes_with_one_row_count_as_unseen(n_classes):
    """Good-Turing: new rows of unseen classes are as common as classes with one row."""
    rng = np.random.default_rng(n_classes)
    centres = 3 * rng.normal(size=(n_classes, 4))
    share = 1 / np.arange(1, n_classes + 1)
    y = rng.choice(n_classes, 1080, p=share / share.sum())
    X = centres[y] + rng.normal(size=(1080, 4))
    wrong, expected = [], []
    for start in range(0, 480, 120):
        rows = np.arange(start, start + 120)
        model = MetricClassifier(None, random_state=0).fit(X[rows], y[rows])
        wrong.append((model.predict(X[600:]) != y[600:]).mean())
        expected.append(model.evidence_.error[model.evidence_.chosen])
        alone = np.sum(np.unique(y[rows], return_counts=True)[1] == 1)
        assert model.unseen_ == alone / 120 and model.evidence_.n_rows == 120
        if model.unseen_ > 0.02:
            with pytest.warns(UserWarning, match="classes that training lacks"):
                model.predict_set(X[600:], alpha=0.02)
    assert abs(np.mean(wrong) - np.mean(expected)) < 0.08


@every_kind
def test_rows_of_weight_zero_do_not_change_the_encoding(kind):
    columns, y = table(0)
    X = pd.DataFrame(columns)
    y = np.where(y > np.median(y), "high", "low") if kind == "classes" else y
    there = np.arange(90) % 3 > 0
    changed = X.where(pd.Series(there), X.assign(colour="violet", size=1e3))
    options = {"metric": None, "random_state": 0}
    one = KINDS[kind](**options).fit(changed, y, sample_weight=1.0 * there)
    other = KINDS[kind](**options).fit(X[there], y[there])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("factor", [1e-200, 1e100])
def test_units_of_a_column_do_not_matter(factor):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 1] > 0).astype(int)
    scaled = X * [1, factor, 1]
    one = MetricClassifier(metric=None, random_state=0).fit(X, y)
    two = MetricClassifier(metric=None, random_state=0).fit(scaled, y)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(scaled), atol=0.02)
    assert (two.predict(scaled) == y).mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("framed", [False, True])
def test_values_far_beyond_those_in_fit_are_refused(kind, framed):
    """Their squares leave the range of floats: the prediction was any, with a narrow interval."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, "high", "low") if kind == "classes" else X[:, 0]
    given = pd.DataFrame(X, columns=list("abc")) if framed else X
    fitted = KINDS[kind](metric=None, random_state=0).fit(given, y)
    given = given.copy()
    given[:2] *= 1e200
    with pytest.raises(ValueError, match=r"far beyond (the values in fit|those seen during fit)"):
        fitted.predict(given)
