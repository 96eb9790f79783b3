"""Splits that leak nothing, judgements that count right, and choices that say why."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numba.core import event
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from conemetric import FrobMetric, watching
from conemetric.automatic import automatic
from conemetric.engine.kernel_map import KERNELS
from conemetric.evaluation.knn import knn_error
from conemetric.report.metric import write_report
from conemetric.studies import Options, methods, run_study
from conemetric.studies import study as studying
from conemetric.studies.constrained import Paired, Ranked
from conemetric.studies.methods import KNOWN, find
from conemetric.studies.supervision import Labelled, Measured, sample_by_class
from conemetric.studies.task import Judgement, data_id

X, y = load_iris(return_X_y=True)


def test_no_row_is_both_learned_from_and_judged_on():
    study = run_study(Labelled(X, y), Options(method="frob", test_size=0.4, max_rows=50))
    task = study.task
    assert not set(task.train) & set(task.test) and set(task.learn) <= set(task.train)
    assert len(task.learn) == pytest.approx(50, abs=2) and len(task.test) == 60
    np.testing.assert_array_equal(
        study.prepare.transform(X[task.original(task.test)]), task.X[task.test]
    )
    np.testing.assert_allclose(
        study.metric.transform(X), study.estimator.transform(study.prepare.transform(X)), atol=1e-9
    )


def test_preprocessing_sees_training_rows_only():
    spoilt = X.copy()
    reference = run_study(Labelled(X, y), Options(method="frob", scale="standard"))
    test = reference.task.original(reference.task.test)
    spoilt[test] *= 100
    study = run_study(Labelled(spoilt, y), Options(method="frob", scale="standard"))
    np.testing.assert_array_equal(study.metric.components, reference.metric.components)


def test_columns_in_other_units_are_standardised():
    study = run_study(Labelled(*load_wine(return_X_y=True)), Options(method="frob"))
    assert study.metric.preprocessing == ["StandardScaler"]
    assert any(note.startswith("Columns standardised") for note in study.notes)


def test_labels_alone_ask_for_a_blend_that_says_what_it_gains():
    study = run_study(Labelled(X, y), Options(n_neighbors=5))
    assert (study.options.method, study.metric.method) == ("auto", "AutoMetric")
    assert study.metric.certificate is None and study.evidence.n_neighbors == 5
    (why,) = [note for note in study.notes if note.startswith("Cross-validated")]
    assert str(study.evidence) in why
    (parts,) = [note for note in study.notes if note.startswith("Weights of 1% or more")]
    for name, weight in study.estimator.weights_.items():
        assert (f"{name} {weight:.0%}" in parts) == (weight >= 0.01)


def test_rows_that_a_candidate_was_not_given_are_told(monkeypatch):
    few = {"lda": automatic.CandidateMethod(LinearDiscriminantAnalysis(), most_rows=50)}
    monkeypatch.setattr(automatic, "default_candidates", lambda: few)
    study = run_study(Labelled(X, y), Options())
    assert any(note.startswith("Candidate lda learned from 50 of") for note in study.notes)


def test_a_blend_learns_from_training_rows_only():
    one = run_study(Labelled(X[::3], y[::3]), Options(scale="none"))
    spoilt = X[::3].copy()
    spoilt[one.task.original(one.task.test)] *= 100
    again = run_study(Labelled(spoilt, y[::3]), Options(scale="none"))
    np.testing.assert_array_equal(again.metric.components, one.metric.components)
    assert again.evidence == one.evidence


@pytest.mark.parametrize("repeats", [2, 4])
@pytest.mark.parametrize("kind", ["labels", "quantity", "triplets"])
@pytest.mark.costly
def test_other_splits_are_those_of_the_seeds_that_follow(kind, repeats, seed):
    task = {
        "labels": Labelled(X, y),
        "quantity": Measured(X[:, :3], X[:, 3]),
        # i and j of the first class, k of the others
        "triplets": Ranked(
            X, np.random.default_rng(0).integers([0, 25, 50], [25, 50, 150], (300, 3))
        ),
    }[kind]
    options = Options(method="frob", seed=seed, test_size=0.4)
    study = run_study(task, replace(options, repeats=repeats))
    alone = [run_study(task, replace(options, seed=seed + i)) for i in range(repeats)]
    rates = np.array([(each.before.rate, each.after.rate) for each in alone])
    np.testing.assert_array_equal(study.rates, rates)
    np.testing.assert_array_equal(study.metric.components, alone[0].metric.components)
    before, after = rates.mean(axis=0)
    sign = np.sign(before - after)
    p_values = [
        each.p_value if sign * (each.before.rate - each.after.rate) > 0 else 1 for each in alone
    ]
    assert study.p_value == min(1, 2 * np.median(p_values))
    words = study.verdict_in_words
    figures = [f"{rate.mean():.2%} ± {rate.std(ddof=1):.2%}" for rate in rates.T]
    assert " -> ".join(figures) in words and f"{repeats} random splits" in words
    better = study.p_value <= 0.05 and after < before
    assert ("Use the learned distance" in words) == better == (study.outcome == "better")


@pytest.mark.parametrize("missing", [1, 30])
def test_gaps_are_encoded_within_the_training_rows(missing):
    gaps = X.copy()
    gaps[:missing, 0] = np.nan
    study = run_study(Labelled(gaps, y), Options(method="frob"))
    assert study.metric.preprocessing == ["TableEncoder"]
    learn = gaps[study.task.original(study.task.learn)]
    encoded = study.task.X[study.task.learn]
    expected = study.metric.encoder.fit(learn).transform(learn)
    np.testing.assert_allclose(encoded, expected, atol=1e-12)


def test_progress_names_the_candidate():
    events = []
    with watching(events.append):
        run_study(Labelled(X[::2], y[::2]), Options())
    solved = {event["candidate"] for event in events if event["kind"] == "solve"}
    assert {"FrobMetric", "FrobMetric (identity prior)"} <= solved


def test_compilation_is_shown_as_what_it_is(monkeypatch):
    spent = iter([10.0, 40.0])
    monkeypatch.setattr(studying, "seconds_compiling", lambda: next(spent))

    def compile_and_fit(task, estimator):
        with event.trigger_event("numba:compile"):
            estimator.fit(X, y)

    monkeypatch.setattr(Labelled, "fit", compile_and_fit)
    events = []
    with watching(events.append):
        study = run_study(Labelled(X, y), Options(method="frob", scale="none"))
    assert study.seconds["compiling, once"] == 30.0
    kinds = [event.get("stage", event["kind"]) for event in events]
    assert kinds.index("learning") < kinds.index("compile") < kinds.index("evaluating")


def test_the_metric_is_handed_over_before_it_is_judged(monkeypatch):
    handed = []

    def fail(self, estimator, options):
        raise RuntimeError

    monkeypatch.setattr(Labelled, "judge", fail)
    with pytest.raises(RuntimeError):
        run_study(
            Labelled(X, y),
            Options(method="frob", scale="none"),
            on_metric=lambda metric, interrupted: handed.append((metric.method, interrupted)),
        )
    assert handed == [("FrobMetric", False)]


def test_progress_names_the_stage_and_shows_the_iterations():
    events = []
    with watching(events.append):
        run_study(Labelled(X, y), Options(method="frob"))
    stages = [event["stage"] for event in events if event["kind"] == "stage"]
    assert stages == ["scaling", "learning", "evaluating"]
    assert any("relative_gap" in event for event in events if event["kind"] == "solve")
    searched = [event["done"] for event in events if event["kind"] == "search"]
    assert searched == sorted(searched) and searched[-1] == 1.0


def test_all_rows_are_learned_from_while_that_takes_minutes(monkeypatch):
    study = run_study(Labelled(X, y), Options(method="frob"))
    assert len(study.task.learn) == 105
    assert "Learned from all 105 training rows." in study.notes
    monkeypatch.setattr(methods, "WORK", 60 * 50 * (2 * 2**2 + 100 * 2 + 1000))
    study = run_study(Labelled(X, y), Options(method="frob", n_pca=2))
    assert len(study.task.learn) == pytest.approx(50, abs=2)
    assert any("of 105 training rows, drawn class by class" in note for note in study.notes)


@pytest.mark.parametrize("method", ["frob", "numax"])
def test_fewer_rows_of_more_features_take_as_long(method):
    rows = [find(method, "labels").most_rows(n_features) for n_features in (10, 100, 1000)]
    assert rows == sorted(rows, reverse=True)
    assert rows[0] > 10_000


def test_a_blend_learns_from_fewer_rows_than_a_single_method():
    frob, auto = (find(method, "labels").most_rows(64) for method in ("frob", "auto"))
    assert frob > auto > 100_000


def test_a_search_among_a_sample_is_said():
    study = run_study(Labelled(X, y), Options(method="frob", parameters={"n_references": 60}))
    assert "Neighbours searched among 60 training rows." in study.notes


@pytest.mark.parametrize("kind", ["labels", "triplets"])
@pytest.mark.parametrize("n_threads", [1, 4])
def test_warnings_of_fits_become_notes_and_filters_stay(kind, n_threads):
    """However many studies run at a time; warnings of others are still given."""
    rng = np.random.default_rng(0)
    triplets = np.array([rng.choice(150, 3, replace=False) for _ in range(60)])
    task = Labelled(X, y) if kind == "labels" else Ranked(X, triplets)
    options = Options(method="frob", scale="none", parameters={"max_iter": 1})
    filters = list(warnings.filters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(n_threads) as pool:
            studies = list(pool.map(lambda _: run_study(task, options), range(n_threads)))
    for study in studies:
        assert any("max_iter" in note for note in study.notes)
    assert warnings.filters == filters
    with pytest.warns(UserWarning, match="max_iter"):
        FrobMetric(max_iter=1).fit(X, y)


def random_pairs(n=400):
    indices = np.random.default_rng(0).integers(150, size=(n, 2))
    indices = indices[indices[:, 0] != indices[:, 1]]
    return indices, y[indices[:, 0]] == y[indices[:, 1]]


def test_pairs_are_judged_by_a_threshold_of_the_training_pairs():
    indices, same = random_pairs()
    study = run_study(Paired(X, indices, similar=same), Options(scale="standard"))
    assert study.metric.method == "FrobMetric"
    distance, threshold = study.after.detail["distance"], study.after.detail["threshold"]
    np.testing.assert_array_equal(
        (distance <= threshold) != same[study.task.test], study.after.wrong
    )


def test_triplets_are_judged_by_order():
    rng = np.random.default_rng(0)
    triplets = np.array([rng.choice(150, 3, replace=False) for _ in range(500)])
    i, j, k = triplets.T
    study = run_study(
        Ranked(X, triplets[(y[i] == y[j]) & (y[i] != y[k])]),
        Options(method="frob", scale="standard"),
    )
    held_out = study.task.indices[study.task.test]
    Z = study.metric.transform(X)
    near, far = (
        np.linalg.norm(Z[held_out[:, 0]] - Z[held_out[:, other]], axis=1) for other in (1, 2)
    )
    np.testing.assert_array_equal(study.after.wrong, near >= far)


def test_pairs_of_one_kind_are_refused():
    indices, same = random_pairs()
    with pytest.raises(ValueError, match="pairs are similar"):
        Paired(X, indices, similar=np.ones_like(same))


def test_every_class_keeps_a_row_on_each_side():
    labels = np.array([0] * 50 + [1] * 2 + [2])
    test = sample_by_class(labels, 16, np.random.default_rng(0))
    left = np.setdiff1d(np.arange(53), test)
    assert set(labels[left]) == {0, 1, 2}
    assert len(set(test)) == len(test)


@pytest.mark.parametrize("n", [3, 6, 30])
def test_samples_hold_every_class_in_proportion(n, seed):
    labels = np.repeat(["a", "b"], [60, 30])
    rows = sample_by_class(labels, n, np.random.default_rng(seed))
    assert np.unique(labels[rows], return_counts=True)[1].tolist() == [2 * n // 3, n // 3]


def test_the_id_of_data_changes_with_any_of_its_numbers():
    triplets = np.array([[0, 1, 50], [2, 3, 60], [4, 5, 70]])
    tasks = [Labelled(X, y), Labelled(-X, y), Labelled(X, 1 - y), Labelled(X[:, :3], y)]
    tasks += [Labelled(X, y.astype(float)), Measured(X, X[:, 0]), Ranked(X, triplets)]
    tasks += [Ranked(X, triplets[:2]), Labelled(X, np.array(["a", "b", "c"], object)[y])]
    assert len({data_id(task) for task in tasks}) == len(tasks)
    for task in tasks:
        assert data_id(replace(task, X=task.X.copy())) == data_id(task)


def test_intervals_and_p_values():
    wrong = np.zeros(100, bool)
    wrong[:5] = True
    low, high = Judgement(wrong).interval
    assert (round(low, 4), round(high, 4)) == (0.0215, 0.1118)  # Wilson's formula by hand
    assert Judgement(wrong).p_value(Judgement(wrong)) == 1.0
    none = Judgement(np.zeros(100, bool))
    assert Judgement(wrong).p_value(none) == pytest.approx(2 * 0.5**5)


def test_methods_know_what_they_learn_from():
    with pytest.raises(ValueError, match="learns from labels, not pairs"):
        find("auto", "pairs")
    with pytest.raises(ValueError, match="'x' is not known"):
        find("x", "labels")
    for method in KNOWN:
        options = Options(seed=2, parameters={"nonsense": 1})
        assert method.with_options(options, 3).get_params()["random_state"] == 2


def test_the_command_and_the_library_judge_by_one_rule():
    """Three neighbours of three classes: the nearest decides, not the lowest label."""
    rows = np.array([[0.0], [0.3], [0.2], [0.05]])
    task = Labelled(rows, np.array([2, 1, 0, 2]), train=np.arange(3), test=np.array([3]))
    error = knn_error(None, rows[:3], task.y[:3], rows[3:], [2])
    assert task.judge(None, Options()).rate == error == 0.0


def test_a_kernel_is_learned_in_and_the_decision_in_the_columns(tmp_path):
    options = Options(method="frob", kernel="gaussian")
    study = run_study(Labelled(X, y), options, decide=True)
    assert study.metric.kernel.kernel == "gaussian"
    assert study.decided.metric.kernel_coordinates_ is None
    write_report(tmp_path / "report.html", study, name="iris")
    assert "no shares of their own" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_choice_between_kernels_and_columns_is_told():
    study = run_study(Labelled(X[::2], y[::2]), Options(kernel="auto"), decide=True)
    assert set(study.estimator.space_errors_) > {"linear"}
    (note,) = [note for note in study.notes if note.startswith("Learned in ")]
    assert "with the columns and " in note and study.estimator.space_.replace("linear", "") in note


@pytest.mark.parametrize(
    ("method", "kernel", "why"),
    [
        ("gradient", "gaussian", "without kernels; use one of: auto, frob"),
        (None, "gaussian", "chooses the kernel itself"),
        ("frob", "auto", "name one for 'frob'"),
    ],
)
def test_a_kernel_that_the_method_has_no_use_for_is_refused(method, kernel, why):
    with pytest.raises(ValueError, match=why):
        run_study(Labelled(X, y), Options(method=method, kernel=kernel))


def test_the_names_of_kernels_are_those_of_the_engine():
    assert tuple(KERNELS) == methods.KERNELS
