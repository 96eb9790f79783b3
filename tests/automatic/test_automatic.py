"""A blend is the weighted mean of what was judged, and the evidence is what was counted."""

import io
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import cache

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from conemetric import AutoMetric, FrobMetric, LearnedMetric, load_metric, save_metric
from conemetric.automatic import automatic, folds
from conemetric.automatic.automatic import default_candidates
from conemetric.automatic.folds import Evidence, LabelledFolds
from conemetric.core.arrays import to_numpy
from conemetric.core.progress import all_or_nothing, watching
from conemetric.evaluation.knn import knn_error
from conemetric.evaluation.statistics import mcnemar

X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
TWO = {"FrobMetric": FrobMetric(), "LDA": LinearDiscriminantAnalysis()}


@cache
def default_fit():
    """The metric of the default candidates, the events of its fit and what it prints."""
    events, printed = [], io.StringIO()
    with watching(events.append), redirect_stdout(printed):
        metric = AutoMetric(verbose=1, random_state=0).fit(X, y)
    return metric, events, printed.getvalue().splitlines()


class Fixed(TransformerMixin, BaseEstimator):
    """The map it is given, whatever it is fitted to."""

    def __init__(self, A, seen=None):
        self.A = A
        self.seen = seen

    def fit(self, X, y):
        if self.seen is not None:
            self.seen.append(len(X))
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X @ np.asarray(self.A).T

    def __sklearn_is_fitted__(self):
        return hasattr(self, "n_features_in_")

    def __sklearn_clone__(self):
        return Fixed(self.A, self.seen)


class Interrupted(Fixed):
    def fit(self, X, y):
        raise KeyboardInterrupt

    def __sklearn_clone__(self):
        return Interrupted(self.A)


def test_parameters_of_candidates_are_validated():
    with pytest.raises(ValueError, match="'tol' parameter of FrobMetric"):
        AutoMetric(candidates={"FrobMetric": FrobMetric(tol=-1.0)}).fit(X, y)


def two_classes(n, rng, noise=8):
    """Classes along the first of several directions, the others noise."""
    labels = np.arange(n) % 2
    points = rng.normal(size=(n, 1 + noise))
    points[:, 0] = 0.3 * points[:, 0] + 2 * labels
    return points, labels


def test_the_matrix_is_the_weighted_mean_of_matrices_at_scale_one():
    rng = np.random.default_rng(0)
    points, labels = two_classes(90, rng)
    maps = {"first": np.eye(9)[:1], "some": rng.normal(size=(3, 9))}
    metric = AutoMetric(
        candidates={name: Fixed(A) for name, A in maps.items()}, random_state=0
    ).fit(points, labels)
    rows = LabelledFolds(points, labels, 3, np.random.RandomState(0))
    expected = 0
    for name, A in {"Euclidean": np.eye(9), **maps}.items():
        for fold in rows.folds:
            train, held = points[fold.train] @ A.T, points[fold.held_out] @ A.T
            squared = ((held[:, None] - train) ** 2).sum(axis=2)
            scale = np.sort(squared, axis=1)[:, :3].mean() + folds.SPREAD * squared.mean()
            expected += metric.weights_[name] * A.T @ A / scale
    np.testing.assert_allclose(metric.get_mahalanobis_matrix(), expected, rtol=1e-8)


def test_evidence_is_what_the_folds_count():
    metric = AutoMetric(candidates={"FrobMetric": FrobMetric()}, random_state=3).fit(X, y)
    rows = LabelledFolds(X, y, 3, np.random.RandomState(3))
    held = np.concatenate([fold.held_out for fold in rows.folds])
    assert sorted(held) == list(range(len(y)))
    errors = [
        (
            knn_error(None, X[train], y[train], X[test], y[test]),
            knn_error(FrobMetric().fit(X[train], y[train]), X[train], y[train], X[test], y[test]),
            len(test),
        )
        for train, test in rows.folds
    ]
    plain, frob = (sum(e[i] * e[2] for e in errors) / len(y) for i in (0, 1))
    found = metric.evidence_
    assert found.error["Euclidean"] == pytest.approx(plain) and found.n_rows == len(y)
    assert found.error["FrobMetric"] == pytest.approx(frob)
    assert found.standard_error["FrobMetric"] == pytest.approx((frob * (1 - frob) / len(y)) ** 0.5)
    assert set(found.error) == {"Euclidean", "FrobMetric", "blend"}


def test_weights_fall_with_the_distance_to_the_best_in_standard_errors():
    rows = np.arange(100)
    wrong = {
        "best": np.zeros(100, bool),
        "close": rows < 4,
        "far": rows < 50,
        "same": np.zeros(100, bool),
        "hopeless": np.ones(100, bool),
    }
    found = folds._weights(wrong)
    assert sum(found.values()) == pytest.approx(1) and found["best"] == found["same"]
    for name in ("close", "far", "hopeless"):
        n_wrong = wrong[name].sum()
        excess = n_wrong / (n_wrong + 1) ** 0.5
        assert found[name] / found["best"] == pytest.approx(np.exp(-1.5 * excess))


@pytest.mark.parametrize(
    ("better", "at_least", "at_most"), [(-9, 0, 0.02), (-3, 0.2, 0.3), (0, 0.7, 0.8), (9, 0.9, 1)]
)
def test_a_blend_that_is_worse_stays_near_the_plain_distance(better, at_least, at_most):
    rows = np.arange(200)
    wrong = {"Euclidean": rows < 50, "blend": rows < 50 - better}
    weights = folds._towards_euclidean({"Euclidean": 0.0, "other": 1.0}, wrong)
    assert sum(weights.values()) == pytest.approx(1)
    assert at_least <= weights["other"] <= at_most


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("n_rows", [2, 4, 6, 8, 40, 400])
def test_few_rows_cannot_move_the_blend_from_the_plain_distance(n_rows, share):
    """The blend is right on this share of the rows, the plain distance on none."""
    wrong = {"Euclidean": np.ones(n_rows, bool), "blend": np.arange(n_rows) >= share * n_rows}
    weight = folds._towards_euclidean({"Euclidean": 0.0, "other": 1.0}, wrong)["other"]
    if n_rows <= 8:
        assert weight == 0
    elif share:
        assert weight > 0.8
    else:
        assert weight == pytest.approx(1 / (1 + np.exp(1.5 * (60 / n_rows - 1))))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.costly
def test_two_rows_of_a_class_leave_the_plain_distance(n_classes, seed):
    rng = np.random.default_rng(seed)
    points, labels = rng.normal(size=(2 * n_classes, 5)), np.arange(2 * n_classes) % n_classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes have fewer rows than targets
        metric = AutoMetric(random_state=seed).fit(points, labels)
    assert metric.weights_["Euclidean"] == 1
    matrix = metric.get_mahalanobis_matrix()
    np.testing.assert_allclose(matrix, matrix[0, 0] * np.eye(5), atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("noise", "expected"), [(0.0, (1,)), (0.3, (3, 5, 7))])
def test_votes_are_chosen_by_held_out_rows(noise, expected, seed):
    """Two separate classes, of which some rows have the label of the other."""
    rng = np.random.default_rng(seed)
    labels = np.arange(200) % 2
    points = rng.normal(size=(200, 2)) + 20 * labels[:, None]
    flipped = np.where(rng.random(200) < noise, 1 - labels, labels)
    metric = AutoMetric(candidates={"same": Fixed(np.eye(2))}, n_neighbors="auto", random_state=0)
    metric.fit(points, flipped)
    assert metric.evidence_.n_neighbors in expected
    given = AutoMetric(
        candidates={"same": Fixed(np.eye(2))},
        n_neighbors=metric.evidence_.n_neighbors,
        random_state=0,
    ).fit(points, flipped)
    assert given.evidence_ == metric.evidence_


def test_where_nothing_helps_the_plain_distance_stays():
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(150, 3)), np.arange(150) % 2
    bad = {"one": Fixed([[1.0, 0.0, 0.0]])}
    evidence = AutoMetric(random_state=0).fit(points, labels).evidence_
    assert "keep the Euclidean distance" in str(evidence)
    points[:, 1:] += 3 * labels[:, None]
    metric = AutoMetric(candidates=bad, random_state=0).fit(points, labels)
    assert metric.weights_["Euclidean"] > 0.99
    error = metric.evidence_.error
    assert error["one"] > 0.3 and error["blend"] <= error["Euclidean"] + 0.01


KEEP = "keep the Euclidean distance"


@pytest.mark.parametrize(
    ("plain", "blend", "p", "sentence"),
    [
        (0.063, 0.041, 0.003, "better than Euclidean: 4.1% against 6.3%, p = 0.003"),
        (0.063, 0.041, 1e-17, "better than Euclidean: 4.1% against 6.3%, p < 0.001"),
        (0.063, 0.041, 0.0496, "better than Euclidean: 4.1% against 6.3%, p = 0.0496"),
        (0.05, 0.06, 0.01, f"worse than Euclidean (6.0% against 5.0%, p = 0.01): {KEEP}"),
        *(
            (
                0.05,
                blend,
                p,
                f"no measurable gain over Euclidean ({blend:.1%} against 5.0%, p = {p:g}): {KEEP}",
            )
            for blend in (0.04, 0.05, 0.06)
            for p in (0.05, 0.3, 1.0)
        ),
    ],
)
def test_the_evidence_in_one_sentence(plain, blend, p, sentence):
    errors = {"Euclidean": plain, "blend": blend}
    assert str(Evidence(errors, errors, p, 100, 3)) == sentence


# ---- folds


def fold_counts(labels, folds):
    """Rows of each class that each fold holds out."""
    return np.array([[np.sum(labels[f.held_out] == c) for c in np.unique(labels)] for f in folds])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("order", ["sorted", "reversed", "mixed"])
@pytest.mark.parametrize(
    "sizes",
    [
        (600, 300),
        (300, 300, 300),
        (100, 20),
        (20, 100, 20, 20),
        (4,) * 77,
        (2,) * 30,
        (50, 3, 2, 1),
    ],
)
def test_folds_hold_out_as_many_rows_of_every_class(sizes, order, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if order == "reversed":
        labels = labels[::-1]
    elif order == "mixed":
        labels = np.random.default_rng(seed).permutation(labels)
    rows = LabelledFolds(np.zeros((len(labels), 1)), labels, 3, np.random.RandomState(seed))
    counts = fold_counts(labels, rows.folds)
    judged = np.array(sizes) > 1
    assert (counts.max(axis=0) - counts.min(axis=0) <= 1).all()
    assert np.ptp(counts.sum(axis=1)) <= 1
    np.testing.assert_array_equal(counts.sum(axis=0), np.where(judged, sizes, 0))
    for fold in rows.folds:
        assert not set(fold.train) & set(fold.held_out)
        assert len(np.unique(labels[fold.train])) == len(sizes)
        if min(sizes) > 10:  # any first part has the classes in proportion
            half = np.bincount(labels[fold.train[: len(fold.train) // 2]])
            assert (abs(half - np.bincount(labels[fold.train]) / 2) <= 1).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_names_of_classes_do_not_change_the_folds(seed):
    labels = np.random.default_rng(seed).integers(0, 4, 101)
    one, two = (
        LabelledFolds(np.zeros((101, 1)), names[labels], 3, np.random.RandomState(seed)).folds
        for names in (np.arange(4), np.array([2, 0, 3, 1]))
    )
    for fold, other in zip(one, two, strict=True):
        np.testing.assert_array_equal(fold.held_out, other.held_out)
        np.testing.assert_array_equal(fold.train, other.train)


@pytest.mark.parametrize("sizes", [(60, 30), (30, 60), (40, 20, 20), (200, 100, 2, 1)])
@pytest.mark.parametrize("seed", [0, 1])
def test_what_is_separable_reads_as_separable(sizes, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    points = np.random.default_rng(seed).normal(size=(len(labels), 3))
    points[:, 0] += 100 * labels
    evidence = (
        AutoMetric(candidates={"same": Fixed(np.eye(3))}, random_state=seed)
        .fit(points, labels)
        .evidence_
    )
    few = sum(size for size in sizes if 1 < size <= 2)  # of two rows, three neighbours outvote one
    assert evidence.error["Euclidean"] * evidence.n_rows <= few
    assert evidence.n_rows == sum(size for size in sizes if size > 1)


def test_rows_without_a_label_neither_judge_nor_vote():
    points, labels = two_classes(60, np.random.default_rng(0))
    unlabelled = np.concatenate([points, 1e3 + points[:20]])
    with pytest.warns(UserWarning, match="label -1"):
        metric = AutoMetric(candidates=TWO, random_state=0).fit(
            unlabelled, np.concatenate([labels, np.full(20, -1)])
        )
    assert metric.evidence_.n_rows == 60


@pytest.mark.parametrize("n_per_class", [2, 4])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.costly
def test_few_labels_of_embeddings_do_not_lose_to_the_plain_distance(n_per_class, seed):
    """12 classes in 24 dimensions, of which the leading ones carry most of the noise."""
    rng = np.random.default_rng(seed)
    scale, centres = np.arange(1, 25) ** -0.5, rng.normal(size=(12, 24))

    def draw(n):
        labels = np.repeat(np.arange(12), n)
        rows = (0.7 * centres[labels] + rng.normal(size=(12 * n, 24))) * scale
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels

    (train, y_train), (test, y_test) = draw(n_per_class), draw(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes have fewer rows than targets
        metric = AutoMetric(random_state=seed).fit(train, y_train)
    learned, plain = (knn_error(m, train, y_train, test, y_test, 1) for m in (metric, None))
    assert learned <= plain + (plain * (1 - plain) / len(y_test)) ** 0.5


class Signals(Fixed):
    """Lets others run between the begin and the end of its fit, as a long solve would."""

    def fit(self, X, y):
        FrobMetric(max_iter=1).fit(X, y)  # would warn that it has not converged
        time.sleep(0.02)
        return super().fit(X, y)

    def __sklearn_clone__(self):
        return Signals(self.A)


@pytest.mark.costly
@pytest.mark.parametrize("n_threads", [1, 4])
def test_fits_in_threads_leave_the_warning_filters_as_they_are(n_threads):
    before = warnings.filters.copy()
    with ThreadPoolExecutor(n_threads) as pool:
        fits = [
            pool.submit(
                AutoMetric(candidates={"one": Signals(np.eye(13))}, random_state=seed).fit, X, y
            )
            for seed in range(n_threads)
        ]
        for fit in fits:
            fit.result()
    assert warnings.filters == before


def test_candidates_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AutoMetric(candidates={"short": FrobMetric(max_iter=1)}, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        FrobMetric(max_iter=1).fit(X, y)


def test_rank_is_cut_to_the_leading_directions():
    whole, cut = (
        AutoMetric(candidates=TWO, n_components=k, random_state=0).fit(X, y) for k in (None, 2)
    )
    values, vectors = np.linalg.eigh(whole.get_mahalanobis_matrix())
    best = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    np.testing.assert_allclose(cut.get_mahalanobis_matrix(), best, atol=1e-10)
    assert cut.transform(X).shape == (len(X), 2)
    with pytest.raises(ValueError, match="n_components=14"):
        AutoMetric(n_components=14).fit(X, y)


@pytest.mark.costly
def test_tensors_and_precisions_give_the_metric_of_arrays(asarray, dtype):
    parts = TWO | {"FrobMetric": FrobMetric(tol=1e-4)}
    expected, found = (
        AutoMetric(candidates=parts, random_state=0).fit(rows, y[::2]).get_mahalanobis_matrix()
        for rows in (X[::2], asarray(X[::2].astype(dtype)))
    )
    assert type(found) is type(asarray(X)) and to_numpy(found).dtype == dtype
    assert abs(to_numpy(found) - expected).max() <= 0.02 * abs(expected).max()
    assert not AutoMetric(random_state=0).fit(asarray(X[::3].astype(dtype)), y[::3]).left_out_


@pytest.mark.turns(3)
def test_a_seed_fixes_the_blend_and_processes_do_not_change_it():
    one, two, other = (
        AutoMetric(candidates=TWO, random_state=seed, n_jobs=n_jobs).fit(X, y)
        for seed, n_jobs in ((0, None), (0, 2), (1, None))
    )
    np.testing.assert_array_equal(one.components_, two.components_)
    assert not np.allclose(one.get_mahalanobis_matrix(), other.get_mahalanobis_matrix())


@pytest.mark.turns(3)
def test_the_number_of_cores_does_not_change_the_blend(monkeypatch):
    """A candidate on each core, and what was learned in the order of the candidates."""
    fits = []
    for cores in ("1", "2", "7"):
        monkeypatch.setenv("OMP_NUM_THREADS", cores)
        fits.append(AutoMetric(max_rows=100, random_state=0).fit(X, y))
    for other in fits[1:]:
        np.testing.assert_array_equal(other.components_, fits[0].components_)
        assert other.weights_ == fits[0].weights_
    for metric in fits:
        assert list(metric.weights_) == ["Euclidean", *default_candidates()]
        assert list(metric.certificates_) == list(metric.shortened_) == list(default_candidates())


@pytest.mark.turns(3)
def test_jobs_of_joblib_take_the_place_of_threads(monkeypatch):
    """Its settings belong to a thread, so that others would not know them."""
    expected = default_fit()[0].components_
    monkeypatch.setattr(automatic, "side_by_side", None)
    with joblib.parallel_config("threading", n_jobs=2):
        metric = AutoMetric(random_state=0).fit(X, y)
    np.testing.assert_array_equal(metric.components_, expected)


def test_a_watcher_hears_nothing_after_its_block(monkeypatch):
    """Candidates that run when another one fails are left, and their solves stop."""
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    heard, ended = [], threading.Event()

    def watch(event):
        heard.append(ended.is_set())
        if len(heard) == 20:
            raise RuntimeError

    with pytest.raises(RuntimeError), watching(watch):
        AutoMetric(random_state=0).fit(X, y)
    ended.set()
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(20)
    assert len(heard) >= 20 and not any(heard)


def test_candidates_of_the_user_stay_in_the_thread_of_the_caller(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    threads = set()
    monkeypatch.setattr(Fixed, "fit", lambda self, X, y: threads.add(threading.get_ident()) or self)
    parts = {name: Fixed(np.eye(13)) for name in "abc"}
    AutoMetric(candidates=parts, random_state=0).fit(X, y)
    assert threads == {threading.get_ident()}


# ---- ends before its time


def test_ctrl_c_keeps_the_blend_so_far():
    parts = {
        "FrobMetric": FrobMetric(),
        "stop": Interrupted(np.eye(13)),
        "never": Fixed(np.eye(13)),
    }
    metric = AutoMetric(candidates=parts, random_state=0).fit(X, y)
    assert metric.interrupted_ and set(metric.weights_) == {"Euclidean", "FrobMetric"}
    alone = AutoMetric(candidates={"FrobMetric": FrobMetric()}, random_state=0).fit(X, y)
    np.testing.assert_array_equal(metric.components_, alone.components_)
    assert not alone.interrupted_
    with all_or_nothing(), pytest.raises(KeyboardInterrupt):
        AutoMetric(candidates=parts).fit(X, y)


def test_candidates_learn_from_max_rows_of_each_fold_at_most():
    points, labels = two_classes(300, np.random.default_rng(0), noise=2)
    seen = {"one": [], "other": []}
    parts = {name: Fixed(np.eye(3), seen[name]) for name in seen}
    metric = AutoMetric(candidates=parts, max_rows=60, random_state=0).fit(points, labels)
    assert seen == {"one": [60] * 5, "other": [60] * 5}
    assert metric.shortened_ == dict.fromkeys(seen, "60 of 240 rows")
    whole = AutoMetric(candidates=parts, random_state=0).fit(points, labels)
    assert seen["one"][5:] == [240] * 5 and not whole.shortened_


@pytest.mark.costly
def test_a_constant_column_changes_nothing_that_is_learned(asarray):
    some = X[::3]
    before = AutoMetric(random_state=0).fit(asarray(some), y[::3])
    after = AutoMetric(random_state=0).fit(asarray(np.insert(some, 3, 7.0, axis=1)), y[::3])
    rest = [column for column in range(14) if column != 3]
    M = to_numpy(after.get_mahalanobis_matrix())
    np.testing.assert_allclose(
        M[np.ix_(rest, rest)], to_numpy(before.get_mahalanobis_matrix()), atol=1e-6
    )
    assert before.weights_ == pytest.approx(after.weights_)


def test_progress_names_the_candidate():
    _, events, _ = default_fit()
    solves = {event["candidate"] for event in events if event["kind"] != "search"}
    assert solves == {
        "RelativeComparisons",
        "FrobMetric",
        "FrobMetric (identity prior)",
        "BoostMetric",
    }


def test_verbose_says_what_each_candidate_does():
    _, _, lines = default_fit()
    assert [line.split("] ")[1].split(":")[0] for line in lines] == list(default_candidates())


# ---- what is refused, and what is left out


def test_candidates_that_fail_are_left_out_with_their_reason():
    """No impostor differs from its point, so `FrobMetric` has no scale."""
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2, size=(400, 1)).astype(float)
    metric = AutoMetric(random_state=0).fit(points, rng.integers(0, 2, 400))
    assert "impostor" in metric.left_out_["FrobMetric"]
    assert metric.transform(points).shape == (400, 1)
    with pytest.raises(ValueError, match="impostor"):
        AutoMetric(candidates={"FrobMetric": FrobMetric()}).fit(points, rng.integers(0, 2, 400))


def test_a_metric_of_zero_is_left_out():
    metric = AutoMetric(candidates={"zero": Fixed(np.zeros((1, 13)))}).fit(X, y)
    assert metric.left_out_ == {"zero": "its metric is zero"}
    assert metric.weights_ == {"Euclidean": 1.0}


def test_many_features_are_too_many_for_nca(monkeypatch):
    rng = np.random.default_rng(0)
    points, labels = two_classes(60, rng, noise=automatic.MOST_FEATURES)
    candidates = {name: default_candidates()[name] for name in ("LDA", "NCA")}
    monkeypatch.setattr(automatic, "default_candidates", lambda: candidates)
    assert "too many" in AutoMetric(random_state=0).fit(points, labels).left_out_["NCA"]


def test_rows_beyond_the_limit_of_nca_are_not_given_to_it(monkeypatch):
    seen = []
    limited = {"NCA": automatic.CandidateMethod(Fixed(np.eye(3), seen), most_rows=100)}
    monkeypatch.setattr(automatic, "default_candidates", lambda: limited)
    points, labels = two_classes(301, np.random.default_rng(0), noise=2)
    metric = AutoMetric(random_state=0).fit(points, labels)
    assert seen == [100] * 5
    assert metric.shortened_ == {"NCA": "100 of 241 rows"}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"candidates": {"Euclidean": FrobMetric()}},
            ValueError,
            "'Euclidean', which is a reserved name",
        ),
        ({"candidates": {"FrobMetric": 3}}, TypeError, "no fit and transform"),
        ({"candidates": {"curved": PolynomialFeatures()}}, ValueError, "not a linear map"),
        ({"max_rows": 1}, ValueError, "max_rows"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        AutoMetric(**arguments).fit(X, y)


def test_bad_data():
    with pytest.raises(ValueError, match="requires y"):
        AutoMetric().fit(X, None)
    with pytest.raises(ValueError, match="1 class"):
        AutoMetric().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="rows of X coincide"):
        AutoMetric().fit(np.zeros((30, 2)), np.arange(30) % 2)


# ---- kept and used like any other


def test_it_is_saved_like_any_other(tmp_path):
    metric, _, _ = default_fit()
    save_metric(tmp_path / "auto.safetensors", metric)
    again = load_metric(tmp_path / "auto.safetensors")
    np.testing.assert_allclose(again.transform(X), metric.transform(X), atol=1e-10)
    assert again.method == "AutoMetric" and again.certificate is None
    assert LearnedMetric.from_estimator(metric).components.shape == metric.components_.shape


def test_certificates_of_the_parts_are_kept():
    metric = AutoMetric(random_state=0).fit(*load_iris(return_X_y=True))
    assert [len(metric.certificates_[name]) for name in ("FrobMetric", "NCA")] == [5, 0]
    proofs = [proof for name in metric.certificates_ for proof in metric.certificates_[name]]
    assert all(proof.relative_gap <= automatic.TOL for proof in proofs)


def test_the_p_value_is_that_of_blend_against_plain():
    metric = AutoMetric(candidates={"same": Fixed(np.eye(13))}, random_state=0).fit(X, y)
    assert metric.evidence_.p_value == mcnemar(np.zeros(2, bool), np.zeros(2, bool)) == 1.0
    assert metric.evidence_.error["blend"] == metric.evidence_.error["Euclidean"]
