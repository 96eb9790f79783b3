"""Decisions of a study: judged on every split beside others, refitted to all rows."""

from dataclasses import replace
from functools import cache, partial
from itertools import combinations, permutations, product
from typing import ClassVar

import numpy as np
import polars as pl
import pytest
from cases import first_of
from scipy.stats import binomtest
from sklearn.datasets import load_wine
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits
from verdict_oracle import Oracle

from conemetric import AutoMetric, FrobMetric, LearnedMetric
from conemetric.automatic import automatic
from conemetric.report.table import table_rows
from conemetric.studies import Options, deciding, run_study
from conemetric.studies.supervision import Labelled, Measured
from conemetric.studies.task import Deviation, Judgement

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
        ahead = np.sign(study.errors("euclidean").mean() - study.errors(name).mean())
        p_values = [
            split["euclidean"].p_value(split[name])
            if ahead * (split["euclidean"].rate - split[name].rate) > 0
            else 1.0
            for split in study.judged
        ]
        assert study.p_of("euclidean", name) == min(1, 2 * np.median(p_values))


def test_equal_differences_on_two_splits_are_no_proof():
    """A forest that gets one row of each split right is not better than the neighbours."""
    study = wine_study()
    mistakes = dict(zip(study.judged[0], (3, 2, 2, 1, 3, 33), strict=True))
    splits = [
        {name: Judgement(np.arange(53) < n + i) for name, n in mistakes.items()} for i in (0, 1)
    ]
    study = replace(study, judged=splits)
    assert study.p_of("euclidean", "random forest") == 1
    assert study.verdict.lowest.name == "random forest"
    assert {each.row.name for each in study.verdict.worse} == {"constant"}


def test_a_difference_counts_in_the_direction_of_the_mean():
    """Better by far on one split of three, a little worse on the others, is not better for certain."""
    wrong = np.zeros((3, 2, 100), bool)
    wrong[0, 0, :60] = True  # the first row of the table errs on 60 rows of this split only
    wrong[1:, 1, :8] = True  # the second on eight of the others: p = 0.008 for each of them
    splits = [{"one": Judgement(one), "other": Judgement(other)} for one, other in wrong]
    study = replace(wine_study(), judged=splits)
    assert study.errors("other").mean() < study.errors("one").mean()
    assert [split["one"].p_value(split["other"]) < 0.01 for split in splits] == [True] * 3
    assert study.p_of("one", "other") == study.p_of("other", "one") == 1


def test_few_differences_between_equals_are_found_whatever_the_splits_share(seed):
    """Five overlapping halves of 100 rows."""
    rng, found = np.random.default_rng(seed), 0
    for _ in range(200):
        wrong = dict(zip(("one", "other"), rng.random((2, 100)) < 0.3, strict=True))
        halves = [rng.permutation(100)[:50] for _ in range(5)]
        splits = [{name: Judgement(wrong[name][half]) for name in wrong} for half in halves]
        found += replace(wine_study(), judged=splits).p_of("one", "other") <= 0.05
    assert found <= 0.05 * 200


@pytest.fixture
def two_candidates(monkeypatch):
    """Of a blend, where how often it is learned is what counts."""
    two = {name: automatic.default_candidates()[name] for name in ("FrobMetric", "LDA")}
    monkeypatch.setattr(automatic, "default_candidates", lambda: two)


@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize("kind", ["array", "named", "gaps"])
@pytest.mark.costly
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
        and "learned again from 178 rows" in study.notes[-1]
        and "refitted to all 178 rows" in study.notes[-1]
    )
    assert decided.final.predict(X).shape == y.shape


def real_p_values(splits):
    """By the tests' own definitions: of one split exact McNemar, of several twice the median."""
    found = {}
    for one, other in combinations(splits[0], 2):
        better, worse = sorted((one, other), key=lambda name: np.mean([s[name] for s in splits]))
        values = []
        for split in splits:
            fixed = int((split[worse] & ~split[better]).sum())
            broken = int((split[better] & ~split[worse]).sum())
            ahead = fixed > broken
            values.append(binomtest(fixed, fixed + broken).pvalue if ahead else 1.0)
        found[frozenset((one, other))] = min(1, 2 * np.median(values)) if splits[1:] else values[0]
    return found


@first_of(
    ("n_splits", "certain", "constant"),
    [
        (1, False, 100),
        *(row for row in product((1, 3), (True, False), (20, 100, 300)) if row != (1, False, 100)),
    ],
)
def test_the_verdict_of_a_study_is_true_of_its_table(n_splits, certain, constant):
    """All orders of four errors on 400 rows: nested where they are certain, else at random."""
    names = ("euclidean", "frob", "MetricClassifier", "random forest")
    rng = np.random.default_rng(0)
    for order in permutations((60, 80, 100, 120)):
        counts = dict(zip(names, order, strict=True)) | {"constant": constant}
        splits = []
        for _ in range(n_splits):
            rows = {name: np.arange(400) for name in counts}
            if not certain:
                rows = {name: rng.permutation(400) for name in counts}
            splits.append({name: rows[name] < n for name, n in counts.items()})
        table = [{name: Judgement(wrong) for name, wrong in split.items()} for split in splits]
        study = replace(wine_study(), judged=table)
        renamed = {"frob": "learned"}
        errors = {renamed.get(name, name): n / 400 for name, n in counts.items()}
        p_values = {
            frozenset(renamed.get(name, name) for name in pair): p
            for pair, p in real_p_values(splits).items()
        }
        several = n_splits > 1
        oracle = Oracle(
            errors,
            p_values,
            where=", mean and standard deviation of 3 random splits"
            if several
            else " on 400 held-out rows",
            judges="splits" if several else "rows",
            figures={name: f"{error:.2%} ± 0.00%" for name, error in errors.items()}
            if several
            else None,
        )
        oracle.check(study.verdict_in_words)


@first_of("noise", [1.0, 0.01])
def test_the_verdict_on_numbers_is_true_of_its_table(noise):
    """Sure and unsure differences of squared errors."""
    names = ("euclidean", "learned", "MetricRegressor", "random forest")
    rng = np.random.default_rng(0)
    study = quantity_study()
    keys = dict(zip(names, list(study.judged[0])[:4], strict=True)) | {"constant": "constant"}
    for order in permutations((0.2, 0.4, 0.6, 0.8)):
        wanted = dict(zip(names, order, strict=True)) | {"constant": 1.0}
        wrong = {
            name: size * (1 + noise * rng.normal(size=60)) ** 2 for name, size in wanted.items()
        }
        table = {keys[name]: Deviation(each, {"rmse": 1.0}) for name, each in wrong.items()}
        shown = replace(study, judged=[table])
        errors = {name: each.mean() for name, each in wrong.items()}
        p_values = {}
        for pair in combinations(wrong, 2):
            better, worse = sorted(pair, key=errors.get)
            p_values[frozenset(pair)] = table[keys[better]].p_value(table[keys[worse]])
        oracle = Oracle(errors, p_values, measure="1 - R²", where=" on 60 held-out rows")
        oracle.check(shown.verdict_in_words)


@cache
def quantity_study():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return run_study(Measured(X, X[:, 0]), Options(method="frob"), decide=True)


def test_a_comparison_that_cannot_be_learned_is_said(monkeypatch):
    class Refusing(DummyClassifier):
        def __init__(self, random_state=None):
            super().__init__(random_state=random_state)

        def fit(self, X, y):
            raise ValueError("The least populated class has only 2 rows.")

    forest = deciding.BASELINES["labels"][0]
    monkeypatch.setitem(deciding.BASELINES, "labels", (forest, Refusing))
    study = run_study(Labelled(X, y), Options(method="frob"), decide=True)
    assert study.decided.absent == {"histogram boosting": "could not be learned"}
    judged_rows = [study.verdict.lowest, *(each.row for each in study.verdict.comparisons)]
    assert "histogram boosting" not in {row.name for row in judged_rows}
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
def test_a_forest_is_skipped_where_it_would_be_slow_and_boosting_never_is(monkeypatch, limit):
    study = wine_study()
    assert list(study.decided.judgements) == COMPARED
    monkeypatch.setattr(deciding, limit, 2)
    notes = []
    again = deciding.judged(study.decided.decision, study.task, 0, notes)
    assert list(again.judgements) == ["MetricClassifier", "histogram boosting"]
    reason = "more than 2 training rows" if limit == "MOST_COMPARED" else "more than 2 classes"
    assert again.absent == {"random forest": f"skipped: {reason}"}
    assert f"random forest is skipped: {reason}." in notes
    row = table_rows(replace(study, decided=again))[-1]
    assert row[:3] == ("random forest", "-", f"skipped: {reason}")


def test_boosting_takes_fewer_rounds_where_all_would_take_long(monkeypatch):
    study = wine_study()
    work_a_round = 3 * X.shape[1] * (len(study.task.learn) + deciding.ROWS_WORTH_OF_BINS)
    monkeypatch.setattr(deciding, "BOOSTING_WORK", 4.5 * work_a_round)
    notes = []
    again = deciding.judged(study.decided.decision, study.task, 0, notes)
    assert "histogram boosting" in again.judgements
    assert "histogram boosting takes 4 rounds instead of 10, to end in minutes." in notes


def test_boosting_is_learned_where_classes_are_too_small_to_stop_it_early(monkeypatch):
    """As it does by itself beyond 10,000 rows."""
    boosting = HistGradientBoostingClassifier
    early = partial(boosting, max_iter=10, early_stopping=True)
    forest = deciding.BASELINES["labels"][0]
    monkeypatch.setitem(deciding.BASELINES, "labels", (forest, early))
    labels = y.astype(str).astype(object)
    labels[:2] = "rare"
    study = run_study(Labelled(X, labels.astype(str)), Options(method="frob"), decide=True)
    learn = study.task.original(study.task.learn)
    assert (labels[learn] == "rare").sum() == 1
    with pytest.raises(ValueError, match="The least populated class"):
        early(random_state=0).fit(X[learn], labels[learn].astype(str))
    assert "histogram boosting" in study.judged[0] and study.decided.absent == {}


@pytest.mark.parametrize("kind", ["labels", "quantity"])
def test_columns_that_say_nothing_are_said_to(kind):
    rng = np.random.default_rng(0)
    rows, chance = rng.normal(size=(120, 2)), rng.normal(size=120)
    if kind == "labels":
        task = Labelled(rows, np.where(chance > 0.6, "rare", "usual"))
        always = "always predicting 'usual', the most common label"
    else:
        task, always = Measured(rows, chance), "always predicting the mean, "
    for decide in (True, False):
        study = run_study(task, Options(method="frob"), decide=decide)
        assert always in study.verdict_in_words
        assert "carry little information" in study.verdict_in_words


def test_the_constant_is_a_row_of_every_table():
    study = wine_study()
    assert study.table()[-1]["method"] == "constant"
    label = np.bincount(y[study.task.original(study.task.learn)]).argmax()
    assert table_rows(study)[-1][0] == f"always '{label}'"
    long = Labelled(X, np.array(["a sentence of many more than forty characters", "b", "c"])[y])
    long = replace(long, learn=np.flatnonzero(y == 0))
    assert long.constant().name == "'a sentence of many more than forty ch...'"


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
