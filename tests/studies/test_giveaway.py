"""Columns that give the label away are named; those that are merely strong are not."""

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from conemetric.datasets import BUNDLED, load_bundled
from conemetric.studies.giveaway import MOST_COLUMNS, find_giveaway

N = 800


def passengers(rng):
    """Who survived, by columns that say a little."""
    age, fare = rng.integers(1, 80, N).astype(float), rng.lognormal(3, 1, N).round(2)
    sex = rng.choice(["male", "female"], N)
    survived = (sex == "female") ^ (rng.random(N) < 0.2)
    return {"age": age, "fare": fare, "sex": sex}, survived.astype(int)


def leaks(rng):
    """By name: columns, labels, whether these are a quantity, and what gives them away."""
    plain, survived = passengers(rng)
    alive = np.array(["no", "yes"])[survived]
    boat = np.where(np.arange(N) % 50 == 0, 1 - survived, survived) * 1.0  # says nearly the same
    score = np.where(survived == 1, rng.uniform(0.5, 1, N), rng.uniform(0, 0.5, N))
    three = rng.integers(0, 3, N)
    codes = np.array(
        [f"{year}{result}" for year, result in zip(rng.integers(1970, 2014, N), alive, strict=True)]
    )
    home, away = rng.integers(0, 6, N).astype(float), rng.integers(0, 6, N).astype(float)
    result = np.sign(home - away)
    sales = rng.lognormal(3, 1, N)
    casual, registered = rng.gamma(1, 50, N), rng.gamma(2, 100, N)
    noise = {"a": rng.normal(size=N), "b": rng.choice(list("uvw"), N)}
    return {
        "other words": ({**plain, "alive": alive}, survived, False, ("alive",)),
        "a probability": ({**plain, "prob": score}, survived, False, ("prob",)),
        "codes": ({**plain, "code": codes}, survived, False, ("code",)),
        "missing": ({**plain, "died": np.where(survived, np.nan, 1)}, survived, False, ("died",)),
        "nearly the same": ({**plain, "alive": alive, "boat": boat}, survived, False, ("alive",)),
        "two": ({**plain, "alive": alive, "prob": score}, survived, False, ("alive", "prob")),
        "three classes": (
            {**noise, "grade": three * 10.0 + rng.random(N)},
            three,
            False,
            ("grade",),
        ),
        "goals": ({**noise, "home": home, "away": away}, result, False, ("home", "away")),
        "costs": (
            {**noise, "cost": sales * 0.95 + rng.normal(size=N) / 10},
            sales,
            True,
            ("cost",),
        ),
        "curved": ({**noise, "rank": np.argsort(np.argsort(sales)) * 1.0}, sales, True, None),
        "sums": (
            {**noise, "casual": casual, "registered": registered},
            casual + registered,
            True,
            ("casual", "registered"),
        ),
    }


@pytest.mark.parametrize("library", ["polars", "numpy"])
def test_columns_that_give_the_label_away_are_named(library, seed):
    for name, (columns, y, quantity, expected) in leaks(np.random.default_rng(seed)).items():
        X = pl.DataFrame(columns, nan_to_null=True)
        if library == "numpy":
            numbers = [each for each in X if each.dtype.is_numeric()]
            if len(numbers) < 2 or set(expected or ()) - {each.name for each in numbers}:
                continue
            X = pl.DataFrame(numbers)
        rows = X.to_numpy() if library == "numpy" else X
        found = find_giveaway(rows, X.columns, y, quantity)
        if expected is None:  # strong, but for few rows of large values
            continue
        assert found is not None, name
        assert set(found.columns) == set(expected), name
        assert found.together == (name in ("goals", "sums")), name
        assert found.error <= 0.01


def honest(rng):
    """Tables with a strong column that leaves a few percent, and tables of real measurements."""
    plain, survived = passengers(rng)
    nearly = np.where(rng.random(N) < 0.03, 1 - survived, survived)
    fare = rng.lognormal(2, 1, N)
    cases = {
        "strong word": ({**plain, "odor": np.array(["foul", "none"])[nearly]}, survived, False),
        "strong number": ({**plain, "petal": nearly + rng.random(N) / 2}, survived, False),
        "nothing": (plain, survived, False),
        "few of a class": ({**plain, "rare": np.arange(N) < 20}, (np.arange(N) < 20) * 1, False),
        "names": ({**plain, "name": [f"n{i}" for i in range(N)]}, survived, False),
        "fare of total": ({**plain, "part": fare}, fare + rng.lognormal(0.5, 1, N), True),
        "all are near": (
            {f"x{i}": fare + rng.normal(size=N) / 100 for i in range(3)},
            fare,
            True,
        ),
        "few large values": (
            {"x": np.where(fare > 20, fare, rng.random(N)), "z": rng.random(N)},
            np.where(fare > 20, fare**4, rng.random(N)),
            True,
        ),
        "many are near": (
            {f"x{i}": fare + rng.normal(size=N) / 100 for i in range(5)}
            | {"other": rng.normal(size=N)},
            fare,
            True,
        ),
    }
    for load, quantity in ((load_breast_cancer, False), (load_wine, False), (load_diabetes, True)):
        data = load()
        cases[load.__name__] = (
            dict(zip(data.feature_names, data.data.T, strict=True)),
            data.target,
            quantity,
        )
    data = load_iris()
    cases["iris"] = dict(zip(data.feature_names, data.data.T, strict=True)), data.target, False
    cases["setosa"] = cases["iris"][0], (data.target == 0).astype(int), False
    for name in BUNDLED:
        if name not in cases and name != "digits":
            bunch = load_bundled(name)
            columns = {str(i): column for i, column in enumerate(bunch.data.T)}
            cases[name] = columns, bunch.target, False
    return cases


def test_strong_columns_of_honest_tables_are_not_named(seed):
    for name, (columns, y, quantity) in honest(np.random.default_rng(seed)).items():
        X = pl.DataFrame(columns)
        assert find_giveaway(X, X.columns, y, quantity) is None, name


def test_it_is_not_looked_for_where_nothing_can_be_said():
    y = np.arange(200) % 2
    for X in (y[:, None].astype(float), np.zeros((200, MOST_COLUMNS + 1))):
        assert find_giveaway(X, [str(i) for i in range(X.shape[1])], y, False) is None
    X = np.column_stack([y, y]).astype(float)
    assert find_giveaway(X, ["only one name"], y, False) is None
    assert find_giveaway(X[:40], ["a", "b"], y[:40], False) is None  # few rows
    assert find_giveaway(X, ["a", "b"], np.arange(200), False) is None  # as many classes as rows
    assert find_giveaway(X, ["a", "b"], np.ones(200), True) is None


def test_what_is_said():
    plain, survived = passengers(np.random.default_rng(0))
    for more, quantity, words in (
        (
            {"alive": survived * 1.0},
            False,
            "'alive' alone predicts 'y' (held-out error 0.0%); if it is",
        ),
        (
            {"a": survived, "b": -survived},
            False,
            "'a' and 'b' each predict 'y' alone (held-out error 0.0%",
        ),
        ({"a": survived, "b": survived, "c": survived}, False, "'a', 'b' and 'c' each predict"),
        (
            {"tax": survived + plain["age"]},
            True,
            "'tax' and 'age' together predict 'y' (held-out R² 1.0",
        ),
    ):
        X = pl.DataFrame({**more, **plain})
        found = find_giveaway(X, X.columns, survived, quantity)
        said = found.in_words("y", "pass --ignore x")
        assert words in said and said.endswith("known only afterwards, pass --ignore x."), said
    assert "predicts the label (" in find_giveaway(
        pl.DataFrame({"alive": survived, **plain}), ["alive", *plain], survived, False
    ).in_words(None, "")
