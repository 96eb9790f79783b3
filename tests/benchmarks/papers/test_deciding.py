"""The tables of decisions count what their headings say."""

import numpy as np
import pytest

from benchmarks.papers.baselines import GridKernelRidge
from benchmarks.papers.deciding import CATBOOST, KEEL_DECIDE, OURS, TALENT, TALENT_METHODS
from benchmarks.papers.regression import REGRESS
from benchmarks.papers.runner import Row


def row(dataset, method, error, seconds=1.0):
    return Row(dataset, method, 10, error, 0.0, seconds, None, None, "")


def test_classifiers_are_held_against_the_better_of_forest_and_boosting():
    errors = {"iris": (4.0, 3.0, 1.0), "wine": (9.0, 9.2, 9.0), "heart": (19.0, 24.0, 27.0)}
    rows = [
        row(f"keel_{name}", method, error)
        for name, values in errors.items()
        for method, error in zip(("forest", "boosting", OURS), values, strict=True)
    ]
    *_, ours = KEEL_DECIDE.summary(rows)
    ratio = (2 / 4 * 1 * 28 / 20) ** (1 / 3)
    assert ours["ratio to the better of forest and boosting"] == pytest.approx(ratio, abs=1e-3)
    assert (ours["won"], ours["lost"]) == (1, 1)
    assert ours["mean rank"] == pytest.approx((1 + 1.5 + 3) / 3, abs=0.01)
    assert KEEL_DECIDE.summary(rows[1:2]) == []  # without a forest there is nothing to divide by


def test_sets_count_where_catboost_agrees_and_ranks_include_ours():
    published = {column: TALENT.published[column, CATBOOST].mean for column in TALENT.columns}
    near, far = "keel_vehicle", "keel_segment"
    rows = [
        *(
            row(near, method, error)
            for method, error in ((CATBOOST, published[near] + 0.9), (OURS, 1))
        ),
        *(
            row(far, method, error)
            for method, error in ((CATBOOST, published[far] - 6), (OURS, 99))
        ),
    ]
    best, second, *rest = TALENT.summary(rows)
    assert best == {"sets": 1, "method": OURS, "mean rank": 1.0, "best on": 1}
    assert (second["method"], second["mean rank"]) == ("TabR", 2.0)
    assert len(rest) == len(TALENT_METHODS) - 1


def test_talent_learns_from_all_rows_and_tests_on_a_fifth():
    split = TALENT.split("keel_letter", np.arange(20_000) % 26, 1)
    assert len(split.train) == pytest.approx(16_000, abs=26)
    assert len(split.train) + len(split.test) == 20_000


@pytest.mark.parametrize("method", REGRESS.methods)
@pytest.mark.costly
def test_unexplained_variance(method, monkeypatch, coarse_search):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    noise = rng.normal(size=120)
    monkeypatch.setattr("benchmarks.papers.regression.load_regression", lambda name: (X, X[:, 0]))
    assert REGRESS.measure("boston", method, 0)["value"] < 30
    monkeypatch.setattr("benchmarks.papers.regression.load_regression", lambda name: (X, noise))
    assert REGRESS.measure("boston", method, 0)["value"] > 70


def test_kernel_ridge_predicts_in_the_units_of_y():
    X = np.linspace(-1, 1, 60)[:, None]
    y = 1000 + 500 * X[:, 0]
    assert np.abs(GridKernelRidge().fit(X, y).predict(X) - y).max() < 10
