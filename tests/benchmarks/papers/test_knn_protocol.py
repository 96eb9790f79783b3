import numpy as np
import pytest

from benchmarks.papers.knn_protocol import (
    Split,
    evaluate,
    official_split,
    preprocessing,
    random_splits,
)
from conemetric import BoostMetric, FrobMetric
from conemetric.core.progress import watching
from conemetric.evaluation.knn import knn_error


@pytest.fixture
def blobs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    X = rng.normal(size=(120, 5)) + np.eye(5)[y] * 1.5
    return X, y


def test_stratified_splits_divide_every_class():
    labels = np.repeat([0, 1, 2], [60, 30, 10])
    first, second = random_splits(100, (0.7, 0.0, 0.3), n_runs=2, labels=labels)
    for split in (first, second):
        assert sorted([*split.train, *split.test]) == list(range(100))
        assert np.bincount(labels[split.train]).tolist() == [42, 21, 7]
    assert set(first.train) != set(second.train)
    with pytest.raises(ValueError, match=r"labels has shape \(99,\) for 100 rows"):
        next(random_splits(100, labels=labels[1:]))


def test_random_splits_partition_the_rows_and_do_not_depend_on_how_many():
    few, many = list(random_splits(101, n_runs=2)), list(random_splits(101, n_runs=5))
    for one, other in zip(few, many, strict=False):
        np.testing.assert_array_equal(one.train, other.train)
        np.testing.assert_array_equal(
            np.sort(np.concatenate([one.train, one.validation, one.test])), np.arange(101)
        )
    assert not np.array_equal(many[0].train, many[1].train)
    assert [len(part) for part in (few[0].train, few[0].validation, few[0].test)] == [70, 15, 16]


def test_official_split_takes_validation_from_the_training_rows():
    split = official_split(50, 40, n_validation=10)
    np.testing.assert_array_equal(
        np.sort(np.concatenate([split.train, split.validation])), np.arange(40)
    )
    np.testing.assert_array_equal(split.test, np.arange(40, 50))


@pytest.mark.parametrize("fractions", [(0.5, 0.5), (0.7, 0.2, 0.2), (1.2, -0.1, -0.1)])
def test_bad_fractions(fractions):
    with pytest.raises(ValueError, match="fractions"):
        next(random_splits(10, fractions))


def test_bad_official_split():
    with pytest.raises(ValueError, match="n_train=10"):
        official_split(10, 10)


class Recorder:
    """A metric that remembers what it was fitted on and scales one feature by its parameter."""

    fitted = []

    def __init__(self, weight=1.0):
        self.weight = weight

    def get_params(self, deep=True):
        return {"weight": self.weight}

    def set_params(self, **parameters):
        self.weight = parameters.get("weight", self.weight)
        return self

    def fit(self, X, y):
        Recorder.fitted.append((self.weight, X.copy()))
        return self

    def transform(self, X):
        return X * np.array([1.0, *[self.weight] * (X.shape[1] - 1)])


def test_evaluate_chooses_on_validation_and_fits_on_training_only():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = np.column_stack([y + 0.1 * rng.normal(size=200), 5 * rng.normal(size=200)])
    split = Split(np.arange(100), np.arange(100, 150), np.arange(150, 200))
    Recorder.fitted = []
    outcome = evaluate(
        Recorder(), X, y, split, grid=[{"weight": 1.0}, {"weight": 0.0}, {"weight": 0.0}]
    )
    assert outcome.parameters == {"weight": 0.0} and outcome.metric.weight == 0.0
    assert outcome.validation_error == 0.0
    for _, seen in Recorder.fitted:
        np.testing.assert_array_equal(seen, X[:100])
    expected = knn_error(None, X[:100, :1], y[:100], X[150:, :1], y[150:])
    assert outcome.test_error == pytest.approx(expected)


def test_evaluate_calls_a_grid_with_the_prepared_training_data(blobs):
    X, y = blobs
    seen = []

    def grid(Z, labels):
        seen.append(Z)
        return [{"weight": 0.5}]

    split = Split(np.arange(60), np.arange(60, 90), np.arange(90, 120))
    outcome = evaluate(
        Recorder(), X, y, split, grid=grid, prepare=preprocessing(standardise=True, n_components=2)
    )
    assert seen[0].shape == (60, 2) and outcome.parameters == {"weight": 0.5}
    np.testing.assert_allclose(seen[0].mean(0), 0, atol=1e-12)


class Boosted(Recorder):
    """Two passes of three and two iterations; only the third metric looks at the first
    feature, which tells the classes.
    """

    def fit(self, X, y):
        self.history_ = {"iteration": np.array([0, 1, 2, 3, 0, 1, 2])}
        return self

    def staged_metrics(self):
        return iter(
            np.array([[[0.0, 1.0]], [[0.0, 1.0]], [[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 2.0]]])
        )


def test_evaluate_stops_a_boosted_metric_on_validation():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = np.column_stack([y + 0.1 * rng.normal(size=200), 5 * rng.normal(size=200)])
    split = Split(np.arange(100), np.arange(100, 150), np.arange(150, 200))
    # of the first pass iterations 1 and 3, of the second 1 and 2
    outcome = evaluate(Boosted(), X, y, split, stages=(1,))
    assert (
        outcome.parameters == {"stage": 3} and outcome.validation_error == outcome.test_error == 0.0
    )
    X[:, 0] = 0.0  # now the third is worthless and the others are alike: the latest is taken
    assert evaluate(Boosted(), X, y, split, stages=(1,)).parameters == {"stage": 5}
    assert evaluate(Boosted(), X, y, split).parameters == {}


@pytest.mark.parametrize("solver", ["stagewise", "corrective"])
def test_a_metric_learned_where_it_is_placed_is_evaluated_on_the_host(blobs, solver):
    torch = pytest.importorskip("torch")
    X, y = blobs
    split = Split(np.arange(60), np.arange(60, 90), np.arange(90, 120))
    metric = BoostMetric(solver=solver, n_passes=2, max_iter=12)
    there, here = (
        evaluate(metric, X, y, split, stages=(5, 10), place=place)
        for place in (torch.as_tensor, None)
    )
    assert there.parameters == here.parameters and there.test_error == here.test_error
    # more learners than features, the same metric
    assert there.metric.transform(X).shape[1] <= X.shape[1]


def test_preprocessing_is_fitted_on_the_training_part():
    X = np.array([[0.0], [2.0], [100.0], [100.0]])
    split = Split(np.array([0, 1]), np.array([], dtype=int), np.array([2, 3]))
    outcome = evaluate(
        None,
        X,
        np.array([0, 1, 0, 1]),
        split,
        prepare=preprocessing(standardise=True),
        n_neighbors=1,
    )
    assert (
        outcome.test_error == 0.5 and outcome.metric is None and np.isnan(outcome.validation_error)
    )


def test_a_choice_needs_a_validation_part(blobs):
    X, y = blobs
    split = Split(np.arange(60), np.array([], dtype=int), np.arange(60, 120))
    with pytest.raises(ValueError, match="no validation part"):
        evaluate(FrobMetric(), X, y, split, grid=[{"C": 1.0}, {"C": 2.0}])
    assert 0 <= evaluate(FrobMetric(tol=1e-2), X, y, split).test_error <= 1


def test_an_empty_grid_is_named(blobs):
    with pytest.raises(ValueError, match="grid is empty"):
        evaluate(FrobMetric(), *blobs, next(random_splits(120)), grid=[])


def test_evaluate_takes_frames(blobs):
    pd = pytest.importorskip("pandas")
    X, y = blobs
    split = Split(np.arange(80), np.arange(0), np.arange(80, 120))
    frame, series = pd.DataFrame(X), pd.Series(y, index=range(7, 127))
    expected = evaluate(None, X, y, split).test_error
    assert evaluate(None, frame, series, split).test_error == expected


def test_ctrl_c_ends_the_protocol(blobs):
    def press(record):
        if record.get("iteration") == 2:
            raise KeyboardInterrupt

    with watching(press), pytest.raises(KeyboardInterrupt):
        evaluate(FrobMetric(tol=1e-9), *blobs, next(random_splits(120)))
