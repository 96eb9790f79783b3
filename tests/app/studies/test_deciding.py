"""Decisions of a study: judged on every split beside others, refitted to all rows."""

from dataclasses import replace
from functools import cache
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from conemetric import AutoMetric, FrobMetric, LearnedMetric
from conemetric.app.report.metric import table_rows
from conemetric.app.studies import Options, deciding, run_study
from conemetric.app.studies.supervision import Labelled, Measured
from conemetric.app.studies.task import Judgement
from conemetric.estimators import automatic

X, y = load_wine(return_X_y=True)


FEW = Labelled(X[::3, :6], y[::3])
COMPARED = ["MetricClassifier", "random forest", "histogram boosting"]


@pytest.mark.parametrize("kind", ["labels", "quantity"])
@pytest.mark.parametrize("rows", [X, pl.DataFrame({"a": X[:, 0], "b": y.astype(str)})])
def test_what_is_installed_does_not_decide_what_is_compared(rows, kind, tmp_path, monkeypatch):
    """CatBoost joined where it was installed, so that tables were different elsewhere."""
    (tmp_path / "catboost.py").write_text("CatBoostClassifier = CatBoostRegressor = dict\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert [name for name, _ in deciding._compared(kind, rows, 0)] == COMPARED[1:]


@cache
def wine_study():
    """A study with a decision, which no test changes."""
    return run_study(Labelled(X, y), Options(method="frob"), decide=True)


def test_every_row_of_the_table_is_judged_on_every_split():
    options = Options(method="frob", repeats=3, seed=4)
    study = run_study(FEW, options, decide=True)
    assert [list(split) for split in study.judged] == [
        ["euclidean", "frob", *COMPARED, "constant"]
    ] * 3
    for i, split in enumerate(study.judged):
        alone = run_study(FEW, Options(method="frob", seed=4 + i), decide=True)
        assert {k: v.rate for k, v in alone.judged[0].items()} == {
            k: v.rate for k, v in split.items()
        }
    for name in COMPARED:
        p_values = [split["euclidean"].p_value(split[name]) for split in study.judged]
        assert study.p_of("euclidean", name) == min(1, 2 * np.median(p_values))


def test_equal_differences_on_two_splits_are_no_proof():
    """A forest that gets one row of each split right is not better than the neighbours."""
    study = wine_study()
    mistakes = dict(zip(study.judged[0], (3, 1, 1, 2, 3, 33), strict=True))
    splits = [
        {name: Judgement(np.arange(53) < n + i) for name, n in mistakes.items()} for i in (0, 1)
    ]
    study = replace(study, judged=splits)
    assert study.p_of("euclidean", "random forest") == 1 and study.recommended == "euclidean"
    assert "over always" not in study.verdict  # 4 against 63 % on two splits is beyond chance


def test_few_differences_between_equals_are_found_whatever_the_splits_share(seed):
    """Five overlapping halves of 100 rows."""
    rng, found = np.random.default_rng(seed), 0
    for _ in range(200):
        wrong = dict(zip(("one", "other"), rng.random((2, 100)) < 0.3, strict=True))
        halves = [rng.permutation(100)[:50] for _ in range(5)]
        splits = [{name: Judgement(wrong[name][half]) for name in wrong} for half in halves]
        found += replace(wine_study(), judged=splits).p_of("one", "other") <= 0.05
    assert found <= 0.05 * 200


def test_a_rival_with_more_mistakes_than_the_decision_is_not_recommended():
    wrong = dict.fromkeys(wine_study().judged[0], np.arange(53) < 12)
    wrong["constant"] = np.arange(53) < 33
    wrong["random forest"] = np.arange(53) < 5  # 7 fewer: p = 0.016
    wrong["MetricClassifier"] = (np.arange(53) >= 11) & (
        np.arange(53) < 15
    )  # 11 fewer, 3 more: 0.057
    study = replace(wine_study(), judged=[{name: Judgement(each) for name, each in wrong.items()}])
    assert study.recommended == "euclidean"


@pytest.fixture
def two_candidates(monkeypatch):
    """Of a blend, where how often it is learned is what counts."""
    two = {name: automatic.default_candidates()[name] for name in ("frob", "lda")}
    monkeypatch.setattr(automatic, "default_candidates", lambda: two)


@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize("kind", ["array", "named", "gaps"])
def test_a_decision_and_its_metric_are_learned_at_once(monkeypatch, two_candidates, scale, kind):
    """Except where the study keeps columns as they are, which a decision standardises."""
    fits = []
    fit = AutoMetric.fit
    monkeypatch.setattr(
        AutoMetric, "fit", lambda self, *a, **k: fits.append(1) or fit(self, *a, **k)
    )
    rows = FEW.X.copy()
    rows[:5, 0] = np.nan if kind == "gaps" else rows[:5, 0]
    names = [f"f{i}" for i in range(6)] if kind == "named" else None
    task, options = Labelled(rows, FEW.y), Options(scale=scale)
    study = run_study(task, options, decide=True, refit=True, feature_names=names)
    shared = scale == "standard" or kind == "gaps"
    assert len(fits) == (1 if shared else 3)
    assert (study.refitted is study.metric) == shared
    assert (study.estimator is study.decided.decision.estimator.metric_) == shared
    Z = study.estimator.transform(study.prepare.transform(rows))
    np.testing.assert_allclose(study.metric.transform(rows), Z, atol=1e-9)
    assert any(note.startswith("Cross-validated on") for note in study.notes)


@pytest.mark.parametrize("options", [{"n_neighbors": 5}, {"parameters": {"max_rows": 20}}], ids=str)
def test_a_metric_with_settings_of_its_own_is_learned_apart(two_candidates, options):
    study = run_study(FEW, Options(scale="standard", **options), decide=True)
    assert study.estimator is not study.decided.decision.estimator.metric_
    assert study.estimator.n_neighbors == options.get("n_neighbors", 3)


def test_a_column_that_is_constant_in_the_training_rows_does_not_spoil_the_metric(two_candidates):
    rows = np.column_stack([X, np.ones(len(X))])[::3]
    names = [f"f{i}" for i in range(14)]
    task, options = Labelled(rows, y[::3]), Options(scale="standard")
    study = run_study(task, options, decide=True, feature_names=names)
    assert study.metric.transform(rows).shape[0] == len(rows) and study.after.rate < 0.1


def test_what_is_saved_is_learned_from_all_rows():
    study = run_study(Labelled(X, y), Options(method="frob", seed=1), decide=True, refit=True)
    expected = make_pipeline(StandardScaler(), FrobMetric(random_state=1, tol=1e-3)).fit(X, y)
    refitted = study.refitted.components
    np.testing.assert_allclose(
        refitted, LearnedMetric.from_estimator(expected).components, rtol=1e-6
    )
    decided = study.decided
    np.testing.assert_array_equal(decided.final_rows, np.arange(len(y)))
    assert (
        len(decided.rows) < len(y)
        and "learned again from 178 rows, decision refitted to all" in study.notes[-1]
    )
    assert decided.final.predict(X).shape == y.shape


def judged(**errors):
    """A study of 400 held-out rows with these numbers of mistakes, the better ones nested."""
    study = wine_study()
    keys = ("euclidean", "frob", "ours", "forest", "boosting", "constant")
    names = dict(zip(keys, study.judged[0], strict=True))
    errors.setdefault("constant", 300)
    split = {names[key]: Judgement(np.arange(400) < errors[key]) for key in names}
    return replace(study, judged=[split])


@pytest.mark.parametrize(
    ("errors", "recommended", "words"),
    [
        ((90, 60, 40, 70, 65), "MetricClassifier", "use MetricClassifier: error 10.00%"),
        ((90, 88, 40, 41, 65), "MetricClassifier", "keep the Euclidean distance"),
        (
            (90, 60, 40, 2, 65),
            "random forest",
            "To predict, random forest is better here: error 0.50%",
        ),
        ((90, 60, 40, 65, 2), "histogram boosting", "histogram boosting is better here"),
        ((90, 60, 58, 59, 65), "frob", "no measurable gain over the nearest neighbours"),
        ((90, 89, 88, 90, 91), "euclidean", "keep the Euclidean distance"),
        ((90, 89, 86, 83, 91), "random forest", "22.50% by the nearest neighbours, p = "),
        ((60, 90, 88, 90, 91), "euclidean", "worse than Euclidean"),
    ],
)
def test_one_verdict_over_the_whole_table(errors, recommended, words):
    study = judged(**named(errors))
    assert study.recommended == recommended and words in study.verdict
    assert "over always" not in study.verdict


def named(errors):
    return dict(zip(("euclidean", "frob", "ours", "forest", "boosting"), errors, strict=True))


@pytest.mark.parametrize(
    ("errors", "who"),
    [
        ((90, 60, 40, 70, 65), "MetricClassifier"),
        ((90, 60, 40, 2, 65), "random forest"),
        ((90, 60, 58, 59, 65), ""),
        ((90, 89, 88, 90, 91), ""),
    ],
)
@pytest.mark.parametrize("more", [-2, 2, 10])
def test_the_verdict_says_where_the_most_common_label_does_as_well(errors, who, more):
    verdict = judged(**named(errors), constant=min(errors) + more).verdict
    what = f"{who} shows no" if who else "nothing shows a"
    said = f"Yet {what} measurable gain over always predicting 1, the most common label (error"
    # of ten rows all in favour p is 0.002, times five rows
    assert (said in verdict) == (more < 10)


def test_a_comparison_that_cannot_be_learned_is_said(monkeypatch):
    class Refusing(DummyClassifier):
        def __init__(self, random_state=None):
            super().__init__(random_state=random_state)

        def fit(self, X, y):
            raise ValueError("The least populated class has only 2 rows.")

    forest = deciding.BASELINES["labels"][0]
    monkeypatch.setitem(deciding.BASELINES, "labels", (forest, Refusing))
    study = run_study(Labelled(X, y), Options(method="frob"), decide=True)
    assert study.rivals == ["random forest"]
    assert study.decided.failed == {
        "histogram boosting": "The least populated class has only 2 rows."
    }
    assert table_rows(study)[-1][:3] == ("histogram boosting", "-", "could not be learned")
    assert any("histogram boosting could not be learned: The least" in note for note in study.notes)


def test_forests_and_boosting_take_words_and_gaps_as_they_are():
    rng = np.random.default_rng(0)
    words = np.where(rng.random(300) < 0.1, None, rng.choice(["red", "green", "blue"], 300))
    numbers = np.where(rng.random(300) < 0.1, None, rng.normal(size=300))
    frame = pl.DataFrame({"word": words.tolist(), "number": numbers.tolist()}, strict=False)
    target = (frame["word"].fill_null("none") == "red").to_numpy() ^ frame[
        "number"
    ].is_null().to_numpy()
    models = dict(deciding._compared("labels", frame, 0))
    assert list(models)[:2] == COMPARED[1:]
    for model in models.values():
        found = np.ravel(model.fit(frame[:200], target[:200]).predict(frame[200:]))
        assert (found == target[200:]).mean() > 0.9
        unseen = frame[200:].with_columns(word=pl.lit("violet"))
        assert len(model.predict(unseen)) == 100


@pytest.mark.parametrize("limit", ["MOST_COMPARED", "MOST_CLASSES"])
def test_forest_and_boosting_are_left_out_where_they_would_be_slow(monkeypatch, limit):
    study = wine_study()
    assert list(study.decided.judgements) == COMPARED
    monkeypatch.setattr(deciding, limit, 2)
    notes = []
    again = deciding.judged(study.decided.decision, study.task, 0, notes)
    assert list(again.judgements) == ["MetricClassifier"]
    assert [note for note in notes if "Forest and boosting are left out" in note]


@pytest.mark.parametrize("kind", ["labels", "quantity"])
def test_a_decision_that_knows_no_more_than_the_labels_says_so(kind):
    rng = np.random.default_rng(0)
    rows, chance = rng.normal(size=(120, 2)), rng.normal(size=120)
    if kind == "labels":
        task, always = (
            Labelled(rows, np.where(chance > 0.6, "rare", "usual")),
            "always predicting usual, the",
        )
    else:
        task, always = Measured(rows, chance), "the mean"
    for decide in (True, False):
        study = run_study(task, Options(method="frob"), decide=decide)
        assert "measurable gain over always predicting" in study.verdict and always in study.verdict


class Probe(DummyClassifier):
    """Notes how many threads its fits may use."""

    seen: ClassVar[list[int]] = []

    def __init__(self, n_jobs=None, random_state=None):
        super().__init__(random_state=random_state)
        self.n_jobs = n_jobs

    def fit(self, X, y):
        self.seen.append(max(pool["num_threads"] for pool in threadpool_info()))
        return super().fit(X, y)


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("small", [False, True])
def test_the_comparison_takes_one_thread_where_the_problem_is_small(monkeypatch, threads, small):
    study = wine_study()
    monkeypatch.setattr(deciding, "MIN_PARALLEL_WORK", X.size if small else 0)
    monkeypatch.setattr(Probe, "seen", [])
    monkeypatch.setitem(deciding.BASELINES, "labels", (Probe, Probe))
    with threadpool_limits(threads):
        deciding.judged(study.decided.decision, study.task, 0, [])
    assert Probe.seen == [1 if small else threads] * 2


def test_forest_and_boosting_read_dates_of_any_part_of_the_rows_as_those_of_all():
    """Of a part in which no day is above 12, the month might come first."""
    days = [f"{day:02d}/{month:02d}/2021" for day in range(1, 29) for month in range(1, 13)]
    frame = pl.DataFrame({"when": days, "x": np.arange(len(days)) * 1.0})
    part = [row for row, day in enumerate(days) if int(day[:2]) <= 12]
    for model in dict(deciding._compared("labels", frame, 0)).values():
        of_all, of_part = (model[0].transform(each)[:, 0] for each in (frame, frame[part]))
        np.testing.assert_array_equal(of_part, of_all[part])
