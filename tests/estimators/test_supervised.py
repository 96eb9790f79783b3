"""What the estimators that learn from labels or constraints have in common on the way in."""

import numpy as np
import pytest
from learners import check_complete
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    GradientMetric,
    LMNNEig,
    NuMax,
    RelativeComparisons,
    frobmetric_path,
)

TRIPLETS = np.array([[0, 1, 2], [2, 3, 0], [4, 5, 1], [50, 51, 0], [100, 101, 60]])


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "metric",
    [FrobMetric(), LMNNEig(), RelativeComparisons(), BoostMetric(v=1.0, loss="logistic")],
    ids=lambda metric: type(metric).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_beside_triplets_change_nothing(metric, iris):
    X, y = iris
    alone = metric.fit(X, triplets=TRIPLETS).components_
    assert_array_equal(metric.fit(X, y, triplets=TRIPLETS).components_, alone)


def test_labels_beside_pairs_change_nothing(iris):
    X, y = iris
    given = {"pairs": [[0, 1], [50, 51], [0, 50], [1, 51]], "similar": [1, 1, 0, 0]}
    alone = DMLEig().fit(X, **given).components_
    assert_array_equal(DMLEig().fit(X, y, **given).components_, alone)


def test_triplets_in_a_pipeline_whose_last_step_needs_labels(iris):
    X, y = iris
    with config_context(enable_metadata_routing=True):
        metric = FrobMetric().set_fit_request(triplets=True)
        pipeline = make_pipeline(metric, KNeighborsClassifier(3)).fit(X, y, triplets=TRIPLETS)
    assert_array_equal(pipeline[0].triplets_, TRIPLETS)
    assert pipeline.score(X, y) > 1 / 3


# ---- what y is

LEARN_FROM_QUANTITIES = {
    "FrobMetric": FrobMetric(tol=0.1),
    "prior": FrobMetric(prior="identity", tol=0.1),
    "LMNNEig": LMNNEig(tol=0.1),
    "RelativeComparisons": RelativeComparisons(),
    "BoostMetric": BoostMetric(max_iter=20, tol=0.1),
    "GradientMetric": GradientMetric(),
}
LEARN_FROM_CLASSES = {
    "AutoMetric": AutoMetric(candidates={"frob": FrobMetric(tol=0.1)}, random_state=0),
    "FrobMetricCV": FrobMetricCV(Cs=2, cv=2, random_state=0, tol=0.1),
    "DMLEig": DMLEig(tol=0.1),
    "NuMax": NuMax(delta=0.9, class_aware=True),
}
LEARNERS = LEARN_FROM_QUANTITIES | LEARN_FROM_CLASSES
check_complete(LEARNERS, "labels")


def whole_numbers(seed, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (100 * X[:, 0] + rng.normal(size=n)).round().astype(int)


@pytest.mark.cases(6)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", LEARN_FROM_QUANTITIES)
@pytest.mark.parametrize("dtype", [int, float])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_whole_numbers_are_learned_from_as_a_quantity(name, dtype, seed):
    X, y = whole_numbers(seed)
    metric = LEARN_FROM_QUANTITIES[name]
    said = metric.fit(X, y.astype(dtype), target="continuous").components_
    with pytest.warns(UserWarning, match="too many to be classes"):
        unsaid = metric.fit(X, y.astype(dtype)).components_
    assert_array_equal(unsaid, said)
    assert_array_equal(metric.fit(X, y + 0.125).components_, said)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", LEARN_FROM_CLASSES)
@pytest.mark.parametrize("shift", [0, 0.5])
def test_a_quantity_is_refused_where_classes_are_needed(name, shift, seed):
    X, y = whole_numbers(seed)
    for target in ("auto", "continuous"):
        with pytest.raises(ValueError, match="learns between classes, and y is a quantity"):
            LEARN_FROM_CLASSES[name].fit(X, y + shift, target=target)


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("numbers", ["ratings", "few shots", "identities"])
@pytest.mark.filterwarnings("ignore")
def test_what_is_called_classes_is_taken_for_classes(name, numbers):
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.repeat(np.arange(20), 3), 20 + np.arange(12)])
    codes = np.repeat(np.arange(4), 18) if numbers == "ratings" else codes
    X = rng.normal(size=(72, 3)) + rng.normal(size=(32, 3))[codes]
    y = {"ratings": 0.5 * codes, "few shots": codes, "identities": 7 * codes}[numbers]
    metric = LEARNERS[name]
    by_name = metric.fit(X, np.char.zfill(codes.astype(str), 3)).components_
    assert_array_equal(metric.fit(X, y, target="classes").components_, by_name)


def test_diabetes_neighbours_by_the_learned_metric_are_no_worse():
    X, y = load_diabetes(return_X_y=True)
    metric = make_pipeline(FrobMetric(), KNeighborsRegressor())
    scores = cross_val_score(metric, X, y, cv=5, params={"frobmetric__target": "continuous"})
    assert scores.mean() > cross_val_score(KNeighborsRegressor(), X, y, cv=5).mean() > 0.35


def test_a_path_is_told_what_y_is():
    X, y = whole_numbers(0)
    path = frobmetric_path(X, y, Cs=[1.0], target="continuous")
    assert_array_equal(
        path[0].components_, FrobMetric(1.0).fit(X, y, target="continuous").components_
    )


@pytest.mark.parametrize("name", ["FrobMetric", "LMNNEig", "DMLEig", "AutoMetric"])
@pytest.mark.parametrize("n_classes", [4, 24])
@pytest.mark.filterwarnings("ignore")
def test_small_classes_are_reported_with_remedies_that_exist(name, n_classes):
    y = np.concatenate([np.repeat(np.arange(n_classes), 4), [n_classes] * 2])
    X = np.random.default_rng(0).normal(size=(len(y), 3)) + y[:, None]
    metric = LEARNERS[name]
    with pytest.warns(UserWarning, match="classes have . or fewer rows") as caught:
        metric.fit(X, y, target="classes")
    (message,) = (str(item.message) for item in caught if "fewer rows" in str(item.message))
    assert ("n_targets" in message) == hasattr(metric, "n_targets")
    takes_quantities = name in LEARN_FROM_QUANTITIES and n_classes > 20
    assert ("target='continuous'" in message) == takes_quantities
    assert "merge classes" in message


@pytest.mark.parametrize("labels", [list("abcdef"), [3, 1, 4, 5, 9, 2]], ids=["text", "numbers"])
@pytest.mark.parametrize("name", ["FrobMetric", "DMLEig", "AutoMetric"])
def test_classes_of_one_row_are_refused_with_remedies_that_exist(name, labels):
    metric = LEARNERS[name]
    with pytest.raises(
        ValueError, match=r"6 classes of one row each.*two rows of a class"
    ) as error:
        metric.fit(np.random.default_rng(0).normal(size=(6, 2)), labels, target="classes")
    takes_quantities = name in LEARN_FROM_QUANTITIES and labels[0] == 3
    assert ("target='continuous'" in str(error.value)) == takes_quantities
