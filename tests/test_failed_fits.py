"""A fit that is refused or interrupted leaves an estimator as it was: predictions, transforms,
evidence, certificates, thresholds, attributes and saved files; a first fit leaves it unfitted.
"""

import inspect
import signal
import threading
from dataclasses import replace
from errno import ENOSPC

import joblib
import numpy as np
import pytest
from failed_fits import (
    N_MOMENTS,
    WAYS,
    NotRefused,
    cell,
    contents,
    differences,
    operations,
    quietly,
    raising_at,
    signalled,
    struck,
    with_parameters,
)
from learners import public_classes
from public_estimators import CASES, OTHER, OTHER_LABELS, X, Y
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from conemetric import (
    BoostMetric,
    DMLEig,
    FrobMetric,
    LMNNEig,
    MetricClassifier,
    MetricRegressor,
    QueryAdapter,
    TableEncoder,
    load_decision,
    save_decision,
    watching,
)

ALL = [
    pytest.param(case, operation, id=f"{name}-{operation.name}")
    for name, case in CASES.items()
    for operation in operations(case)
]
FITS = [each for each in ALL if each.values[1].method == "fit"]
every_operation = pytest.mark.parametrize(("case", "operation"), ALL)
SECOND_FITS = [each for each in ALL if each.values[1].name == "second fit"]
every_second_fit = pytest.mark.parametrize(("case", "operation"), SECOND_FITS)
every_fit = pytest.mark.parametrize(("case", "operation"), FITS)


def test_every_public_estimator_is_tried():
    tried = {type(case.estimator) for case in CASES.values()}
    assert tried == set(public_classes())


@pytest.mark.cases(6)
@every_operation
def test_what_fails_changes_nothing(case, operation):
    changed, applied = {}, 0
    for way in WAYS:
        try:
            found = cell(case, operation, way)
        except NotRefused:
            found = ["it did not fail"]
        applied += found is not None
        if found:
            changed[way] = found
    assert not changed and applied > 0


@pytest.mark.cases(6)
@every_operation
def test_ctrl_c_at_any_line_changes_nothing(case, operation):
    assert struck(case, operation, KeyboardInterrupt, N_MOMENTS // 4) == []


@pytest.mark.cases(6)
@every_fit
def test_an_error_at_any_line_changes_nothing(case, operation):
    assert struck(case, operation, MemoryError, 1) == []


@pytest.mark.slow
@every_operation
@pytest.mark.parametrize(("error", "n"), [(KeyboardInterrupt, N_MOMENTS), (MemoryError, 5)])
def test_errors_at_many_lines_change_nothing(case, operation, error, n):
    assert struck(case, operation, error, n, seed=1) == []


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no such signals")
@every_operation
def test_signals_at_any_time_change_nothing(case, operation):
    assert signalled(case, operation, N_MOMENTS) == []


@pytest.mark.cases(6)
@every_operation
def test_an_estimator_is_assigned_in_one_step(case, operation):
    fitted = operation.start(case)
    assigned = []

    class Watched(type(fitted)):
        def __setattr__(self, name, value):
            if self is estimator:
                assigned.append(name)
            super().__setattr__(name, value)

    estimator = object.__new__(Watched)
    estimator.__dict__.update(vars(fitted))
    quietly(operation.run, estimator)
    assert assigned == ["__dict__"]


@pytest.mark.cases(6)
@every_second_fit
def test_an_estimator_serves_as_before_while_it_is_fitted(case, operation):
    estimator = operation.start(case)
    before, during = joblib.hash(quietly(case.outputs, estimator)), []
    looking = []  # what is looked at has events of its own

    def look(event):
        if len(during) < 3 and not looking:
            looking.append(True)
            during.append(joblib.hash(quietly(case.outputs, estimator)))
            looking.clear()

    with watching(look):
        quietly(operation.run, estimator)
    assert set(during) <= {before}
    assert joblib.hash(quietly(case.outputs, estimator)) != before


@pytest.mark.cases(6)
@every_second_fit
def test_nothing_of_earlier_fits_is_left(case, operation):
    fresh = quietly(clone(case.estimator).fit, **operation.taken)
    for earlier in operations(case)[1:]:
        estimator = earlier.start(case)
        quietly(earlier.run, estimator)
        quietly(operation.run, estimator)
        assert vars(estimator).keys() == vars(fresh).keys(), earlier.name


@pytest.mark.parametrize("kind", public_classes())
def test_signatures_and_docstrings_are_those_of_the_method(kind):
    for name in ("fit", "partial_fit", "refit", "set_threshold", "calibrate_threshold"):
        method = getattr(kind, name, None)
        if method is not None:
            assert inspect.getdoc(method) and method.__name__ == name
            assert "args" not in inspect.signature(method).parameters


# ---- what users saw


def test_a_refused_fit_leaves_a_regressor_as_it_was():
    data, target = load_diabetes(return_X_y=True)
    regressor = MetricRegressor(metric=None, random_state=0).fit(data, target)
    before = regressor.score(data, target)
    regressor.set_params(metric="auto")
    with pytest.raises(ValueError, match="all 50 rows of X coincide"):
        regressor.fit(np.ones((50, 10)), np.arange(50.0) * 1000)
    assert regressor.score(data, target) == before > 0.5


def test_ctrl_c_leaves_a_classifier_as_it_was(tmp_path):
    data, labels = load_wine(return_X_y=True)
    classifier = MetricClassifier(random_state=0).fit(data, labels)
    accuracy, evidence = classifier.score(data, labels), classifier.evidence_
    events = iter(range(30))

    def press(event):
        if next(events, None) is None:
            raise KeyboardInterrupt

    with watching(press), pytest.raises(KeyboardInterrupt):
        classifier.fit(10 * data, labels)
    assert classifier.score(data, labels) == accuracy > 0.95
    assert classifier.evidence_ is evidence
    save_decision(tmp_path / "wine", classifier)
    assert load_decision(tmp_path / "wine").score(data, labels) == accuracy


def test_one_class_leaves_a_classifier_as_it_was():
    classifier = MetricClassifier(metric=None, random_state=0).fit(X, Y)
    before = classifier.predict(X)
    with pytest.raises(ValueError, match="y has one class"):
        classifier.fit(X, Y * 0)
    np.testing.assert_array_equal(classifier.predict(X), before)


def test_an_interrupted_refit_names_the_rows_it_did():
    classifier = MetricClassifier(metric=None, random_state=0).fit(X, Y)
    before = classifier.explain(X, 3).rows
    more, labels = np.concatenate([X[::-1], X + 1]), np.concatenate([Y[::-1], Y])

    def press(event):
        if event["kind"] == "stage":
            raise KeyboardInterrupt

    with watching(press), pytest.raises(KeyboardInterrupt):
        classifier.refit(more, labels, sample_weight=np.arange(len(more)) >= 10)
    np.testing.assert_array_equal(classifier.explain(X, 3).rows, before)


def test_a_frame_that_is_refused_leaves_a_metric_its_columns():
    metric = FrobMetric().fit(X, Y)
    before = metric.transform(X)
    with pytest.raises(ValueError, match="y has 1 class"):
        metric.fit(OTHER, ["red"] * len(OTHER))
    np.testing.assert_array_equal(metric.transform(X), before)
    first = FrobMetric()
    with pytest.raises(ValueError, match="y has 1 class"):
        first.fit(OTHER, ["red"] * len(OTHER))
    with pytest.raises(NotFittedError):
        check_is_fitted(first)


def test_a_fixed_setting_forgets_the_candidates_of_an_earlier_choice():
    case = CASES["QueryAdapter, auto"]
    adapter = quietly(QueryAdapter(random_state=0).fit, **case.first)
    assert adapter.candidates_ and adapter.chosen_
    quietly(adapter.set_params(C=1.0).fit, **case.first)
    assert not hasattr(adapter, "candidates_") and not hasattr(adapter, "chosen_")


def test_a_summary_of_another_table_leaves_an_encoder_as_it_was():
    case = CASES["TableEncoder"]
    encoder = TableEncoder().fit(**case.first)
    before = contents(case, encoder)
    encoder.summarize(np.ones((3, 7)))
    assert differences(before, contents(case, encoder)) == []
    unfitted = TableEncoder()
    unfitted.summarize(case.first["X"])
    with pytest.raises(NotFittedError):
        unfitted.transform(case.first["X"])


# ---- a subclass, threads, a full disk


class Scaled(FrobMetric):
    """As users write it: what is set before and after the fit of the base stays."""

    def fit(self, X, y):
        self.scaler_ = StandardScaler().fit(X)
        super().fit(self.scaler_.transform(X), y)
        self.n_rows_ = len(X)
        return self


def test_a_subclass_may_set_attributes_around_the_fit_of_its_base():
    metric = Scaled().fit(X, Y)
    assert metric.fit(X, Y) is metric
    assert metric.n_rows_ == len(X) and metric.scaler_.n_features_in_ == 4
    assert metric.transform(metric.scaler_.transform(X)).shape[0] == len(X)


def test_fits_side_by_side_end_as_one_of_them():
    metric = FrobMetric()
    data = [(X, Y), (np.asarray(OTHER), OTHER_LABELS)]
    whole = [clone(metric).fit(*each).components_ for each in data]
    threads = [threading.Thread(target=metric.fit, args=each) for each in data]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    number = [components.shape[1] for components in whole].index(metric.n_features_in_)
    np.testing.assert_array_equal(metric.components_, whole[number])


@pytest.mark.costly
@pytest.mark.parametrize(
    "metric",
    [
        FrobMetric(C=100.0, tol=0.0, max_iter=45),
        LMNNEig(tol=0.0, max_iter=45),
        DMLEig(tol=0.0, max_iter=45),
        BoostMetric(solver="stagewise", loss="exponential", v=1e-7, tol=0.0, max_iter=45),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_a_full_disk_leaves_metric_and_checkpoint_as_they_were(metric, tmp_path, monkeypatch):
    da = pytest.importorskip("dask.array")
    from conemetric.blocks import checkpoint, threads

    case = CASES[type(metric).__name__]
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    rows = da.from_array(rng.normal(size=(60, 4)) + labels[:, None], chunks=(30, 4))
    estimator = quietly(clone(metric).fit, X, Y)
    before, write, kept = contents(case, estimator), checkpoint.write_array, []

    def write_until_full(array, address):
        """The disk is full once a whole state is on it."""
        if (tmp_path / "state").exists():
            kept.append((tmp_path / "state").read_bytes())
            raise OSError(ENOSPC, "No space left on device")
        write(array, address)

    monkeypatch.setattr(checkpoint, "write_array", write_until_full)
    monkeypatch.setattr(threads, "write_array", write_until_full)
    given = rows, da.from_array(labels, chunks=30)
    with pytest.raises(OSError, match="No space left"):
        quietly(estimator.fit, *given, checkpoint=str(tmp_path))
    assert differences(before, contents(case, estimator)) == []
    assert (tmp_path / "state").read_bytes() == kept[0]
    monkeypatch.undo()
    resumed = quietly(estimator.fit, *given, checkpoint=str(tmp_path))
    assert not hasattr(resumed, "triplets_") and not hasattr(resumed, "pairs_")


# ---- the ways themselves


class Careless(BaseEstimator):
    """A fit of the kind that all others must not be."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        if not np.isfinite(self.mean_).all():
            raise ValueError
        self.spread_ = X.std(axis=0)
        return self


def test_a_fit_that_assigns_as_it_goes_is_found_out():
    case = replace(
        CASES["FrobMetric"],
        estimator=Careless(),
        first={"X": X},
        second={"X": X + 1},
        used=lambda estimator, given: {"mean": lambda: estimator.mean_},
        write=None,
    )
    first, second = operations(replace(case, refused={"missing values": {"X": X * np.nan}}))[:2]
    assert cell(case, first, "missing values") == ["outputs", "mean_"]
    assert cell(case, second, "missing values") == ["outputs", "mean_"]
    with pytest.raises(NotRefused):
        with_parameters(case, first, {}, {})


def test_errors_are_raised_at_the_line_of_their_number():
    with raising_at(None, KeyboardInterrupt) as lines:
        FrobMetric().fit(X, Y)
    assert lines[0] > 500
    with raising_at(lines[0] // 2, MemoryError) as reached, pytest.raises(MemoryError):
        FrobMetric().fit(X, Y)
    assert reached[0] == lines[0] // 2
