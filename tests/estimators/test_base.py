"""What all estimators do with their input: errors before work starts, tensors, data frames."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
from cases import each
from learners import NO_PROGRAM, SEVERAL_FITS, check_complete
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import conemetric
from conemetric import (
    AutoMetric,
    BoostMetric,
    DMLEig,
    FrobMetric,
    FrobMetricCV,
    GradientMetric,
    LMNNEig,
    MaximumVarianceUnfolding,
    MaxMarginMatrixFactorization,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
    frobmetric_path,
    numax_path,
)
from conemetric.core.arrays import to_numpy
from conemetric.core.progress import all_or_nothing, watching
from conemetric.core.warn import collected_warnings

SUPERVISED = [
    FrobMetric(),
    BoostMetric(v=1.0, loss="logistic"),
    DMLEig(n_impostors=1),
    LMNNEig(),
    RelativeComparisons(random_state=0),
    NuMax(0.4, class_aware=True),
]
check_complete(SUPERVISED, "labels", without=NO_PROGRAM | SEVERAL_FITS)


@pytest.fixture(params=SUPERVISED, ids=lambda estimator: type(estimator).__name__)
def estimator(request):
    return request.param


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::5], y[::5]


def test_labels_are_one_vector(estimator, iris, asarray):
    X, y = iris
    with pytest.raises(
        ValueError, match=r"y should be a 1d array, got an array of shape \(30, 2\)"
    ):
        estimator.fit(asarray(X), np.column_stack([y, y]))
    with pytest.raises(ValueError, match=r"1 missing label \(first: row 0\)"):
        estimator.fit(asarray(X), [None, *("abc"[label] for label in y[1:])])
    with pytest.raises(ValueError, match="y has 1 class, 'a'"):
        estimator.fit(asarray(X), ["a"] * 30)
    reference = estimator.fit(asarray(X), y).components_
    with pytest.warns(UserWarning, match="column-vector y"):
        assert_allclose(
            to_numpy(estimator.fit(asarray(X), y[:, None]).components_), to_numpy(reference)
        )


def test_names_that_come_twice_are_refused():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(np.eye(6)[:, :3], columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="X has more than one column 'a'; rename them, or drop"):
        FrobMetric().fit(X, [0, 1] * 3)


def test_rows_labelled_minus_one_are_left_out(estimator, iris, asarray):
    X, y = iris
    partly = np.where(np.arange(len(y)) % 6 == 0, -1, y)
    if isinstance(estimator, NuMax):  # its constraints are about all rows
        with pytest.raises(ValueError, match=r"5 of 30 rows have the label -1.*drop them"):
            estimator.fit(asarray(X), partly)
        return
    alone = clone(estimator).set_params(tol=1e-6).fit(asarray(X[partly >= 0]), y[partly >= 0])
    with pytest.warns(UserWarning, match="5 of 30 rows have the label -1"):
        found = clone(estimator).set_params(tol=1e-6).fit(asarray(X), partly)
    assert_allclose(found.objective_, alone.objective_, rtol=1e-5)


def test_masked_arrays_are_refused(iris):
    X, y = iris
    masked = np.ma.masked_greater(X, X.max() - 1e-9)
    metrics = [*SUPERVISED, FrobMetricCV(), MaximumVarianceUnfolding()]
    for metric in metrics:
        with pytest.raises(ValueError, match="X has 1 masked entries"):
            clone(metric).fit(masked, y)
        with pytest.raises(ValueError, match="X has 1 masked entries"):
            clone(metric).fit(X, y).transform(masked)
    with pytest.raises(ValueError, match="y has 10 masked entries"):
        FrobMetric().fit(X, np.ma.masked_equal(y, 2))
    with pytest.raises(ValueError, match="X has 1 masked entries"):
        FrobMetric().fit(np.ma.masked_equal(np.arange(24.0).reshape(4, 3, 2), 3))
    with pytest.raises(ValueError, match="pairs has 1 masked entries"):
        FrobMetric().fit(X, y).pair_distance(np.ma.masked_equal(np.arange(8.0).reshape(1, 2, 4), 3))
    with pytest.raises(ValueError, match="queries has 1 masked entries"):
        QueryAdapter().fit(masked, X, [[0, 1]])
    nothing = np.ma.masked_greater(X, 1e9)
    assert_allclose(FrobMetric().fit(nothing, y).objective_, FrobMetric().fit(X, y).objective_)


def test_masked_ratings_are_not_there():
    rng = np.random.default_rng(0)
    Y = rng.integers(1, 4, size=(8, 6)).astype(float)
    hidden = rng.random(Y.shape) < 0.3
    model = MaxMarginMatrixFactorization().fit(np.where(hidden, np.nan, Y))
    masked = MaxMarginMatrixFactorization().fit(np.ma.array(Y.astype(int), mask=hidden))
    assert masked.objective_ == model.objective_


def test_too_many_components_are_refused_before_neighbours_are_searched(iris, monkeypatch):
    def search(*args):
        raise AssertionError("the search has begun")

    monkeypatch.setattr("conemetric.estimators.supervised.neighbours_by_label", search)
    for metric in (FrobMetric(n_components=5), DMLEig(n_components=5)):
        with pytest.raises(ValueError, match="n_components=5 is more than the 4 features"):
            metric.fit(*iris)


def test_message_without_labels_names_only_what_fit_takes(iris):
    with pytest.raises(ValueError, match="pairs and similar"):
        DMLEig().fit(iris[0])
    with pytest.raises(ValueError, match=r"pass labels y\.$"):
        FrobMetricCV().fit(iris[0])


def test_tensors_that_cannot_be_learned_from(estimator, iris):
    torch = pytest.importorskip("torch")
    X, y = torch.as_tensor(iris[0]), iris[1]
    for wrong in (X.to_sparse(), X + 1j):
        with pytest.raises(TypeError, match="pass a dense, real one"):
            estimator.fit(wrong, y)
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        estimator.fit(X[:, :0], y)


def test_tensors_of_integers_become_double_precision(iris):
    torch = pytest.importorskip("torch")
    # single precision cannot tell such numbers apart
    X = torch.as_tensor((iris[0] * 10).astype(int)) + 2**26
    metric = FrobMetric().fit(X, iris[1])
    assert metric.components_.dtype == torch.float64
    assert_allclose(metric.objective_, FrobMetric().fit(X.numpy(), iris[1]).objective_, rtol=1e-3)


def test_pairs_need_no_feature_names(estimator, iris):
    pd = pytest.importorskip("pandas")
    X, y = iris
    metric, pairs = (
        estimator.fit(pd.DataFrame(X, columns=list("abcd")), y),
        np.stack([X[:5], X[-5:]], axis=1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metric.pair_distance(pairs).shape == (5,)
        assert metric.pair_distance(pairs[:0]).shape == (0,)
    with pytest.raises(ValueError, match="Input pairs contains NaN"):
        metric.pair_distance(pairs * np.nan)


def interrupt_at(number):
    """A watcher of iterations that presses Ctrl-C once, at the first one of this number."""
    pressed = []

    def watch(record):
        if record.get("iteration") == number and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt

    return watching(watch)


@pytest.mark.parametrize(
    "unfinished",
    [*SUPERVISED, FrobMetricCV(), MaximumVarianceUnfolding(), MaxMarginMatrixFactorization()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_first_fit_that_was_interrupted_leaves_nothing_fitted(unfinished, iris):
    unfinished = clone(unfinished)
    fit = (
        (lambda: unfinished.fit(np.sign(iris[0] - iris[0].mean(0))))
        if isinstance(unfinished, MaxMarginMatrixFactorization)
        else (lambda: unfinished.fit(*iris))
    )
    with interrupt_at(0), all_or_nothing(), pytest.raises(KeyboardInterrupt):
        fit()
    with pytest.raises(NotFittedError):
        getattr(unfinished, "transform", getattr(unfinished, "predict", None))(iris[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ctrl_c_ends_a_series_of_fits(iris):
    X, y = iris
    with interrupt_at(2), pytest.raises(KeyboardInterrupt):
        FrobMetricCV(Cs=3, cv=2).fit(X, y)
    with interrupt_at(2):
        path = frobmetric_path(X, y, Cs=[0.1, 1.0, 10.0], tol=1e-9)
    assert [metric.certificate_.status for metric in path] == ["interrupted"]
    with interrupt_at(0), pytest.raises(KeyboardInterrupt):
        NuMax(n_components=3).fit(X)
    with interrupt_at(0), pytest.raises(KeyboardInterrupt):
        numax_path(X, deltas=[0.2, 0.4])
    with interrupt_at(2):
        metric = BoostMetric(n_passes=3).fit(X, y)
    assert metric.certificate_.status == "interrupted"
    assert metric.n_passes_ == 1


TWICE = np.repeat(np.arange(12.0)[:, None] ** 2, 2, axis=0)  # rows in pairs


@pytest.mark.parametrize(
    ("metric", "y"),
    [
        (FrobMetric(tol=1e-12, max_iter=1), np.arange(24) % 2),
        (LMNNEig(), np.arange(24) % 2),
        (DMLEig(), np.arange(24) % 2),
        (NuMax(0.4, tol=0.1), None),
        (NuMax(n_components=1, tol=0.1), None),
        (MaximumVarianceUnfolding(1), None),
    ],
    ids=str,
)
def test_warnings_name_the_line_of_the_user_and_can_be_silenced_for_a_thread(metric, y):
    X = np.hstack([TWICE, TWICE[::-1] % 7])
    with pytest.warns(UserWarning) as caught:
        clone(metric).fit(X, y)
    assert {warning.filename for warning in caught} == {__file__}
    with warnings.catch_warnings(), collected_warnings():
        warnings.simplefilter("error")
        clone(metric).fit(X, y)


def documented(text):
    """Names in the Parameters section of a docstring."""
    if "Parameters\n" not in text:
        return []
    section = inspect.cleandoc(text.split("Parameters\n")[1]).split("\n\n")[0]
    names = [line.split(" : ")[0] for line in section.splitlines()[1:] if line[:1].strip()]
    return [name.lstrip("*") for line in names for name in line.split(", ")]


PUBLIC = [getattr(conemetric, name) for name in conemetric.__all__]
METHODS = [
    method
    for kind in PUBLIC
    if inspect.isclass(kind) and issubclass(kind, BaseEstimator)
    for name, method in inspect.getmembers(kind, inspect.isfunction)
    if not name.startswith("_") and method.__module__.startswith("conemetric")
]


@each("kind", PUBLIC)
def test_docstrings_list_the_parameters(kind):
    if inspect.isfunction(kind) or hasattr(kind, "get_params"):  # else users pass nothing
        assert sorted(documented(kind.__doc__)) == sorted(inspect.signature(kind).parameters)


@each("method", dict.fromkeys(METHODS))
def test_docstrings_of_methods_list_the_parameters(method):
    if found := documented(method.__doc__ or ""):
        assert sorted(found) == sorted({*inspect.signature(method).parameters} - {"self"})


@pytest.mark.parametrize("estimator", [FrobMetric(), AutoMetric(), GradientMetric()])
@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_named(estimator, missing):
    y = np.array(["a", "b"] * 10, object)
    y[[4, 7]] = missing
    with pytest.raises(
        ValueError, match=r"y has 2 missing labels \(first: row 4\); drop those rows"
    ):
        estimator.fit(np.random.default_rng(0).normal(size=(20, 2)), y)


@pytest.mark.parametrize("kind", [FrobMetric, AutoMetric, NuMax])
def test_values_that_no_metric_takes_are_named_with_column_row_and_remedy(kind):
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = [0, 1] * 10
    table = pd.DataFrame(X, columns=list("abc")).assign(who="C17")
    with pytest.raises(
        ValueError, match=r"column 3 \('who'\) .*'C17'.*make_pipeline\(TableEncoder"
    ):
        kind().fit(table, y)
    X[[3, 5], 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN: column 2, first in row 3, 2 in all; .*Imputer"):
        kind().fit(X, y)
    with pytest.raises(ValueError, match=r"infinity: column 1, first in row 0, 1 in all"):
        kind().fit(np.where(np.arange(60).reshape(20, 3) == 1, np.inf, np.nan_to_num(X)), y)


def test_labels_of_another_number_are_refused():
    with pytest.raises(ValueError, match="y has 19 labels for the 20 rows of X"):
        FrobMetric().fit(np.eye(20), [0] * 19)
