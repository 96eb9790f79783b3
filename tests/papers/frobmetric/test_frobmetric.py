"""FrobMetric as a user meets it: scikit-learn's conventions, units, warm starts,
errors, both libraries.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from conemetric import FrobMetric, frobmetric_path
from conemetric.core import spectral
from conemetric.core.arrays import to_numpy


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.7, 1e3, 1e6])
def test_units_do_not_change_the_metric(load, scale):
    X, y = load(return_X_y=True)
    M = FrobMetric().fit(X, y).get_mahalanobis_matrix()
    assert_allclose(
        scale**2 * FrobMetric().fit(scale * X, y).get_mahalanobis_matrix(),
        M,
        atol=1e-8 * abs(M).max(),
    )


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_change_the_neighbours_in_float32(scale):
    X, y = load_wine(return_X_y=True)
    X = (X / X.std(axis=0)).astype(np.float32)

    def neighbours(X):
        Z = FrobMetric(tol=1e-4).fit(X, y).transform(X)
        assert Z.dtype == np.float32
        return NearestNeighbors(n_neighbors=3).fit(Z).kneighbors(return_distance=False)

    assert (neighbours(X) == neighbours(X * np.float32(scale))).mean() > 0.97


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_out_of_the_range_of_float32_are_refused(iris, scale):
    X, y = iris
    with pytest.raises(
        ValueError, match=r"out of the range of float32.*rescale X, or pass it in float64"
    ):
        FrobMetric().fit((scale * X).astype(np.float32), y)
    assert FrobMetric().fit(scale * X, y).certificate_.status == "converged"


def test_learns_what_matters():
    """Two informative features among ten: 3-NN improves far beyond the Euclidean metric."""
    rng = np.random.default_rng(0)
    X, y = make_blobs(300, 2, centers=4, cluster_std=0.8, random_state=0)
    X = np.hstack([X, 8 * rng.normal(size=(300, 8))])
    knn = KNeighborsClassifier(3)
    before = knn.fit(X[:200], y[:200]).score(X[200:], y[200:])
    metric = FrobMetric().fit(X[:200], y[:200])
    after = knn.fit(metric.transform(X[:200]), y[:200]).score(metric.transform(X[200:]), y[200:])
    assert after > before + 0.15
    weight = np.diag(metric.get_mahalanobis_matrix())
    assert weight[:2].min() > 5 * weight[2:].max()


def test_digits_are_certified_in_both_precisions(dtype):
    X, y = load_digits(return_X_y=True)
    metric = FrobMetric().fit(X[:500].astype(dtype), y[:500])
    assert metric.certificate_.relative_gap <= metric.tol
    assert metric.certificate_.status == "converged"
    assert metric.components_.dtype == dtype


def test_libraries_agree(iris, asarray):
    X, y = iris
    metric = FrobMetric(tol=1e-6).fit(asarray(X), y)
    reference = FrobMetric(tol=1e-6).fit(X, y)
    assert type(metric.components_) is type(asarray(X))
    assert metric.objective_ == pytest.approx(reference.objective_, rel=1e-5)
    M = reference.get_mahalanobis_matrix()
    assert_allclose(to_numpy(metric.get_mahalanobis_matrix()), M, atol=1e-2 * abs(M).max())


def test_mahalanobis_surface(iris, asarray):
    X, y = iris
    metric = FrobMetric().fit(asarray(X), y)
    Z, M = to_numpy(metric.transform(asarray(X))), to_numpy(metric.get_mahalanobis_matrix())
    pairs = np.stack([X[:5], X[60:65]], axis=1)
    distances = to_numpy(metric.pair_distance(asarray(pairs)))
    assert_allclose(distances, np.linalg.norm(Z[:5] - Z[60:65], axis=1), rtol=1e-8)
    assert_allclose(to_numpy(metric.pair_score(asarray(pairs))), -distances)
    d = X[0] - X[60]
    assert metric.get_metric()(X[0], X[60]) == pytest.approx((d @ M @ d) ** 0.5)
    assert metric.get_metric()(X[0], X[60], squared=True) == pytest.approx(d @ M @ d)
    assert np.linalg.eigvalsh(M)[0] >= -1e-12 * np.linalg.eigvalsh(M)[-1]


@pytest.mark.parametrize("k", [2, 9, 13])
def test_a_truncated_metric_is_certified_beyond_the_span_of_the_rows_too(k, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 20)), np.arange(9) % 2
    metric = FrobMetric(prior="identity", n_targets=2, n_impostors=2, n_components=k).fit(X, y)
    i, j, far = metric.triplets_.T
    mean = ((X[i] - X[far]) ** 2).sum(1).mean()
    Z = metric.transform(X)
    margins = ((Z[i] - Z[far]) ** 2).sum(1) - ((Z[i] - Z[j]) ** 2).sum(1)
    away = metric.get_mahalanobis_matrix() - np.eye(20) / mean
    primal = 0.5 * (away**2).sum() + metric.C_ * np.maximum(0, 1 - margins).mean()
    assert metric.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert metric.components_.shape == (k, 20) and metric.certificate_.status == "truncated"


def test_n_components_is_the_best_truncation(iris):
    X, y = iris
    full, cut = FrobMetric().fit(X, y), FrobMetric(n_components=2).fit(X, y)
    values, vectors = np.linalg.eigh(full.get_mahalanobis_matrix())
    best = (vectors[:, -2:] * values[-2:]) @ vectors[:, -2:].T
    assert cut.components_.shape == (2, 4)
    assert_allclose(cut.get_mahalanobis_matrix(), best, atol=1e-10)
    assert cut.certificate_.dual == full.certificate_.dual
    assert cut.certificate_.primal > full.certificate_.primal


def test_same_bits_every_time(iris, asarray):
    X, y = iris
    first, second = (FrobMetric().fit(asarray(X), y) for _ in range(2))
    assert_array_equal(to_numpy(first.components_), to_numpy(second.components_))


def test_triplets_from_labels_or_by_hand_are_the_same(iris):
    X, y = iris
    by_label = FrobMetric().fit(X, y)
    by_hand = FrobMetric().fit(X, triplets=by_label.triplets_.tolist())
    assert_array_equal(by_label.components_, by_hand.components_)


def test_warm_start_saves_iterations(iris):
    X, y = iris
    metric = FrobMetric(tol=1e-5, warm_start=True).fit(X, y)
    cold = metric.n_iter_
    assert cold > 3
    assert metric.fit(X, y).n_iter_ <= 2
    metric.set_params(C=1.2 * metric.C_).fit(X, y)
    assert metric.n_iter_ < FrobMetric(C=metric.C_, tol=1e-5).fit(X, y).n_iter_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [10, 19, 26])
def test_a_warm_start_worse_than_a_cold_one_is_not_kept(seed):
    """Multipliers that were right for other weights and a C 500 times smaller."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 4))
    triplets = np.array([rng.choice(20, 3, replace=False) for _ in range(60)])
    before, after = 10.0 ** rng.uniform(-3, 3, 60), 10.0 ** rng.uniform(-3, 3, 40)
    metric = FrobMetric(C=1.0, loss="logistic", warm_start=True)
    metric.fit(X, triplets=triplets, sample_weight=before).set_params(C=500.0)
    metric.fit(X, triplets=triplets[:40], sample_weight=after)
    cold = FrobMetric(C=500.0, loss="logistic").fit(X, triplets=triplets[:40], sample_weight=after)
    assert metric.history_["dual"][0] >= cold.history_["dual"][0]
    assert metric.certificate_.status == cold.certificate_.status == "converged"


@pytest.mark.parametrize("labelled", [False, True])
def test_warm_start_takes_more_triplets_than_before(iris, asarray, labelled):
    """Judgements or rows are added; the optimum is that of all of them, reached sooner."""
    X, y = iris
    T = FrobMetric().fit(X, y).triplets_
    few = {"y": y[:120]} if labelled else {"triplets": T[::2]}
    more = {"y": y} if labelled else {"triplets": T}
    metric = FrobMetric(C=1.0, tol=1e-5, warm_start=True)
    metric.fit(asarray(X[:120] if labelled else X), **few)
    metric.fit(asarray(X), **more)
    cold = FrobMetric(C=1.0, tol=1e-5).fit(asarray(X), **more)
    assert metric.objective_ == pytest.approx(cold.objective_, rel=2e-5)
    assert len(metric.multipliers_) == len(cold.multipliers_)
    if not labelled:
        assert metric.history_["dual"][0] > cold.history_["dual"][0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_warm_start_takes_other_weights_and_another_library_and_precision(iris, asarray, loss):
    X, y = iris
    weights = np.where(np.arange(150) % 3, 1.0, 1e-9)
    metric = FrobMetric(2.0, loss=loss, warm_start=True).fit(X, y)
    metric.fit(asarray(X.astype(np.float32)), y, sample_weight=weights)
    cold = FrobMetric(2.0, loss=loss).fit(X, y, sample_weight=weights)
    assert metric.certificate_.status == "converged"
    assert metric.objective_ == pytest.approx(cold.objective_, rel=2e-3)
    assert metric.fit(X, y).certificate_.status == "converged"


@pytest.mark.parametrize("factor", [1e-11, 1e12])
def test_a_common_factor_of_weights_cancels_in_single_precision(factor, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(24) % 2
    X = (1e8 * (rng.normal(size=(24, 4)) + y[:, None])).astype(np.float32)
    one, other = (FrobMetric().fit(X, y, sample_weight=np.full(24, c)) for c in (1.0, factor))
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert_allclose(
        other.components_, one.components_, rtol=0, atol=1e-4 * abs(one.components_).max()
    )


def test_identity_prior_has_no_units(iris):
    X, y = iris
    M = FrobMetric(prior="identity").fit(X, y).get_mahalanobis_matrix()
    for scale in (1e-4, 1e4):
        scaled = FrobMetric(prior="identity").fit(scale * X, y).get_mahalanobis_matrix()
        assert_allclose(scale**2 * scaled, M, atol=1e-6 * abs(M).max())


def test_path_begins_at_the_prior(iris, asarray):
    """As C goes to zero the metric becomes the prior; the more C, the less of it."""
    X, y = iris
    path = frobmetric_path(asarray(X), y, Cs=[1e-9, 1e-2, 1e2], prior="identity")
    M = [to_numpy(metric.get_mahalanobis_matrix()) for metric in path]
    identity = np.eye(4) * M[0][0, 0]
    assert_allclose(M[0], identity, atol=1e-6 * M[0][0, 0])
    away = [np.linalg.norm(matrix - identity) for matrix in M]
    assert away[0] < away[1] < away[2]


def test_a_learned_metric_is_updated(iris, asarray, dtype):
    """What it satisfies already leaves it as it is; new triplets move it, and the proof
    is about the program with that prior.
    """
    X, y = iris[0].astype(dtype), iris[1]
    first = FrobMetric().fit(asarray(X), y)
    margins = _margins(first, X, to_numpy(first.triplets_))
    kept = first.triplets_[np.flatnonzero(margins >= 1.01)]
    same = FrobMetric(prior=first).fit(asarray(X), triplets=kept)
    M = to_numpy(first.get_mahalanobis_matrix())
    assert_allclose(to_numpy(same.get_mahalanobis_matrix()), M, atol=1e-5 * abs(M).max())
    assert same.certificate_.status == "converged"
    broken = first.triplets_[np.flatnonzero(margins < 0.9)]
    assert len(broken) > 0
    moved = FrobMetric(prior=M, C=10.0).fit(asarray(X), triplets=broken)
    assert moved.certificate_.relative_gap <= moved.tol
    after = _margins(moved, X, to_numpy(broken))
    assert np.clip(1 - after, 0, None).sum() < np.clip(1 - margins[margins < 0.9], 0, None).sum()


def _margins(metric, X, triplets):
    Z = X @ to_numpy(metric.components_).T
    i, j, k = triplets.T
    return ((Z[i] - Z[k]) ** 2).sum(1) - ((Z[i] - Z[j]) ** 2).sum(1)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (np.eye(3), r"shape \(3, 3\); for 4 features"),
        (np.triu(np.ones((4, 4))), "not symmetric"),
        (np.full((4, 4), np.nan), "finite"),
        (-np.eye(4), "eigenvalue -1"),
        ("whitening", "'prior' parameter"),
    ],
)
def test_a_prior_that_is_no_metric_is_named(iris, prior, message):
    with pytest.raises(ValueError, match=message):
        FrobMetric(prior=prior).fit(*iris)


def test_a_zero_prior_is_none(iris):
    X, y = iris
    plain, zero = (
        FrobMetric(tol=1e-6, prior=prior).fit(X, y) for prior in (None, np.zeros((4, 4)))
    )
    assert plain.objective_ == pytest.approx(zero.objective_, rel=2e-6)


def test_survives_pickle_and_clone(iris):
    metric = FrobMetric(n_components=2).fit(*iris)
    again = pickle.loads(pickle.dumps(metric))
    assert_array_equal(again.transform(iris[0]), metric.transform(iris[0]))
    assert again.certificate_ == metric.certificate_
    assert clone(metric).get_params() == metric.get_params()


def test_frames_and_names(iris):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(iris[0], columns=list("abcd"))
    metric = FrobMetric(n_components=2).set_output(transform="pandas").fit(frame, iris[1])
    assert list(metric.feature_names_in_) == list("abcd")
    assert list(metric.transform(frame).columns) == ["frobmetric0", "frobmetric1"]


def test_not_converging_warns_and_keeps_the_certificate(iris):
    with pytest.warns(ConvergenceWarning, match=r"max_iter.*tol=1e-12.*raise max_iter"):
        metric = FrobMetric(tol=1e-12, max_iter=2).fit(*iris)
    c = metric.certificate_
    assert c.status == "max_iter"
    assert c.dual < c.primal


def test_verbose_prints_progress(iris, capsys):
    FrobMetric(verbose=10).fit(*iris)
    assert "[FrobMetric]" in capsys.readouterr().out
    FrobMetric().fit(*iris)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": None}, "requires y to be passed"),
        ({"y": [1, 1, 1, 1]}, "1 class"),
        ({"y": [0, 1, 2, 3]}, "classes of one row each"),
        ({"triplets": np.empty((0, 3), int)}, "triplets is empty"),
        ({"triplets": [[0, 1, 9]]}, "index out of range"),
        ({"triplets": [[0, 0, 1]]}, "i == j"),
        ({"triplets": [[0, 1, 1]]}, "j == k"),
        ({"triplets": [[0, 1]]}, r"shape \(m, 3\)"),
        ({"triplets": [[0.5, 1, 2]]}, "dtype float64"),
        ({"X": [[0.0], [np.nan], [1], [2]], "y": [0, 0, 1, 1]}, "NaN"),
        ({"X": np.zeros((4, 2)), "y": [0, 0, 1, 1]}, "coincides with its point"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*targets")
def test_bad_input_is_named_before_work_starts(arguments, message):
    X = arguments.get("X", np.arange(8.0).reshape(4, 2) ** 2)
    with pytest.raises(ValueError, match=message):
        FrobMetric().fit(X, **{name: value for name, value in arguments.items() if name != "X"})


def test_too_many_components_and_wrong_width_are_named(iris, asarray):
    with pytest.raises(ValueError, match="n_components=9"):
        FrobMetric(n_components=9).fit(*iris)
    metric = FrobMetric().fit(asarray(iris[0]), iris[1])
    with pytest.raises(ValueError, match="expecting 4 features"):
        metric.transform(asarray(iris[0][:, :3]))
    with pytest.raises(ValueError, match="two points per pair"):
        metric.pair_distance(asarray(iris[0]))


def test_small_classes_warn_and_use_what_is_there():
    X = np.random.default_rng(0).normal(size=(9, 2))
    y = np.array(["a"] * 6 + ["b"] * 2 + ["c"])
    with pytest.warns(UserWarning, match="2 of 3 classes have 3 or fewer rows"):
        metric = FrobMetric().fit(X, y)
    anchors = set(metric.triplets_[:, 0].tolist())
    assert anchors == set(range(8))  # the single 'c' has no target, but serves as an impostor
    assert 8 in metric.triplets_[:, 2]


@pytest.mark.parametrize("prior", [None, "identity"])
def test_without_eigenvalues_the_optimum_is_the_same(prior, monkeypatch):
    """As a GPU finds positive parts in single precision."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, y = torch.as_tensor(rng.normal(size=(150, 12)), dtype=torch.float32), rng.integers(0, 3, 150)
    plain = FrobMetric(prior=prior, tol=1e-4).fit(X, y)
    found = []

    def positive_factor(S, rank_guess=None):
        found.append(spectral.by_sign(S) if S.dtype == torch.float32 else None)
        return found[-1] or spectral.psd_split(S, rank_guess)

    monkeypatch.setattr(spectral, "positive_factor", positive_factor)
    metric = FrobMetric(prior=prior, tol=1e-4).fit(X, y)
    assert sum(part is not None for part in found) > 5
    assert metric.certificate_.relative_gap <= 1e-4
    assert metric.objective_ == pytest.approx(plain.objective_, rel=2e-4)
