"""Columns of very different scales are pointed out once, and only where they do harm."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    LMNNEig,
    MetricClassifier,
    RelativeComparisons,
    ScaleWarning,
    frobmetric_path,
)
from conemetric.datasets import load_vehicle
from conemetric.estimators.fit_warnings import FEWEST_ROWS, LARGEST_FACTOR, warn_if_unscaled

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
EVEN = RNG.standard_normal((60, 6)) + Y[:, None]
UNEVEN = EVEN * [1.0, 1.0, 1.0, 1.0, 1.0, 50 * LARGEST_FACTOR]


def hints(run):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(item.message) for item in caught if item.category is ScaleWarning]


def hints_at(X):
    return hints(lambda: warn_if_unscaled(FrobMetric(), X))


@pytest.mark.parametrize(
    "estimator",
    [
        FrobMetric(max_iter=5),
        FrobMetricCV(Cs=2, cv=2, max_iter=5),
        BoostMetric(max_iter=5),
        RelativeComparisons(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_fit_to_columns_of_different_scales_hints_once_and_scaling_ends_it(
    estimator, asarray, dtype
):
    X = UNEVEN.astype(dtype)
    (hint,) = hints(lambda: clone(estimator).fit(asarray(X), Y))
    name = type(estimator).__name__
    assert hint.startswith("Column 5 of X is ")
    assert hint.endswith(f"make_pipeline(StandardScaler(), {name}()).")
    assert not hints(lambda: make_pipeline(StandardScaler(), clone(estimator)).fit(X, Y))


@pytest.mark.parametrize(
    "estimator",
    [
        AutoMetric(),
        DMLEig(),
        LMNNEig(),
        MetricClassifier(FrobMetric()),
        FrobMetric(prior=np.diag(1 / UNEVEN.var(0))),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.costly
def test_estimators_that_scale_or_know_the_scales_do_not_hint(estimator):
    assert not hints(lambda: estimator.fit(UNEVEN, Y))


def test_constraints_and_paths_hint_as_labels_do():
    triplets = np.column_stack([np.arange(57), np.arange(57) + 3, np.arange(57) + 1])
    for run in (
        lambda: FrobMetric(max_iter=5).fit(UNEVEN, triplets=triplets),
        lambda: FrobMetric(max_iter=5).fit(UNEVEN[triplets]),
        lambda: FrobMetric(prior="identity", max_iter=5).fit(UNEVEN, Y),
        lambda: frobmetric_path(UNEVEN, Y, Cs=[1.0, 10.0], max_iter=5),
    ):
        assert len(hints(run)) == 1


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer, load_vehicle])
def test_real_columns_of_different_units_hint_until_they_are_standardised(load):
    data = load()
    X, standard = data.data, StandardScaler().fit_transform(data.data)
    assert len(hints_at(X)) == 1
    assert not hints_at(standard)
    rare = OneHotEncoder().fit_transform(np.minimum(np.arange(len(X)), 20)[:, None]).toarray()
    assert not hints_at(np.hstack([standard, rare]))


@pytest.mark.parametrize(
    "X",
    [
        load_iris().data,
        load_digits().data,
        StandardScaler().fit_transform(load_digits().data),
        PCA(0.99).fit_transform(load_digits().data),
        np.c_[RNG.standard_normal((500, 40)), 1e-8 * RNG.standard_normal((500, 4))],  # dead units
        np.eye(40)[np.minimum(RNG.geometric(0.1, 500), 39)],
    ],
    ids=["flowers", "pixels", "standardised pixels", "components", "embedding", "indicators"],
)
def test_columns_of_one_unit_do_not_hint(X):
    assert not hints_at(X)


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_units_order_and_origin_do_not_change_the_hint(unit, factor, seed):
    rng = np.random.default_rng(seed)
    column = rng.standard_normal(50)
    X = column[:, None] * [1.0, 1.0, factor * LARGEST_FACTOR] * rng.choice([-1, 1], 3)
    expected = hints_at(X)
    assert len(expected) == (factor > 1)
    rows, columns = rng.permutation(50), rng.permutation(3)
    assert hints_at(unit * X) == hints_at(X[rows]) == hints_at(X + 1e3) == expected
    assert len(hints_at(X[:, columns])) == len(expected)
    assert len(hints_at(np.c_[X, np.full(50, 0.1)])) == len(expected)  # a constant column


def test_the_column_is_named_and_few_rows_prove_nothing():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(UNEVEN, schema=[*"abcde", "proline"])
    (hint,) = hints(lambda: FrobMetric().fit(frame, Y))
    assert hint.startswith("Column 'proline' of X")
    assert hints_at(UNEVEN[:FEWEST_ROWS]) and not hints_at(UNEVEN[: FEWEST_ROWS - 1])
    assert not hints_at(np.ones((50, 4))) and not hints_at(UNEVEN[:, 5:])


def test_columns_at_the_ends_of_the_range_hint_without_overflow():
    X = UNEVEN[:, [0, 5]] * [1e-300, 1e55]
    assert len(hints_at(X)) == 1
