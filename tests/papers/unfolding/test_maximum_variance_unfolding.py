"""Maximum variance unfolding as an estimator: what it unfolds, its extensions, and its errors."""

import warnings

import numpy as np
import pytest
from oracles import unfolding_optimum
from sklearn.datasets import make_blobs, make_swiss_roll

from conemetric import MaximumVarianceUnfolding
from conemetric.core.arrays import to_numpy
from conemetric.papers.unfolding import maximum_variance_unfolding
from conemetric.papers.unfolding.neighbour_graph import (
    landmark_basis,
    neighbour_edges,
    variance_bound,
)
from conemetric.papers.unfolding.program import UnfoldingOnFace


@pytest.fixture
def arc():
    """Points on three quarters of a circle, and the length of the chain that joins them
    up to each.
    """
    angle = (np.arange(40) + np.random.default_rng(0).uniform(-0.3, 0.3, 40)) * 1.5 * np.pi / 40
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    return X, np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(X, axis=0), axis=1))])


@pytest.mark.parametrize("constraint", ["at_most", "equal"])
def test_arc_becomes_a_line(arc, constraint, asarray):
    X, _ = arc
    chain = MaximumVarianceUnfolding(
        n_neighbors=2, n_components=1, sigma=np.inf, constraint=constraint
    ).fit(asarray(X))
    a, b = chain.edges_.T
    line = to_numpy(chain.embedding_)[:, 0]
    position = (line - line.mean()) * np.sign(line[-1] - line[0])
    assert (np.diff(position) > 0).all()
    assert abs(position[a] - position[b]).max() <= np.linalg.norm(X[a] - X[b], axis=1).max() * 1.01
    assert chain.certificate_.status == "converged"
    assert type(chain.embedding_) is type(asarray(X))
    assert chain.objective_ == pytest.approx(float(chain.eigenvalues_.sum()), rel=1e-6)


def test_certificate_and_kernel_are_those_of_the_program(arc):
    X, _ = arc
    model = MaximumVarianceUnfolding(n_neighbors=3, tol=1e-4).fit(X)
    K = model.kernel_matrix()
    np.testing.assert_allclose(K.sum(0), 0, atol=1e-9)
    assert model.objective_ == pytest.approx(
        np.trace(K) - (K**2).sum() / (2 * model.sigma_), rel=1e-6
    )
    a, b = model.edges_.T
    excess = K[a, a] + K[b, b] - 2 * K[a, b] - ((X[a] - X[b]) ** 2).sum(1)
    longest = ((X[a] - X[b]) ** 2).sum(1).max()
    assert max(excess.max(), 0.0) / longest == pytest.approx(model.certificate_.violation, abs=1e-9)
    assert -model.certificate_.dual >= model.objective_ * (1 - 1e-4)
    # the regulariser of sigma="auto" costs at most five per cent
    exact = MaximumVarianceUnfolding(n_neighbors=3, sigma=np.inf, tol=1e-4).fit(X)
    assert 0.949 * exact.objective_ <= model.objective_ <= exact.objective_ * (1 + 1e-3)


def graph(kind):
    """(points, neighbours) of a small graph: what its distances leave free depends on the kind."""
    rng = np.random.default_rng(len(kind))
    shapes = {"rigid": (16, 2), "loose": (18, 6), "pieces": (20, 2), "outlier": (20, 3)}
    X = rng.normal(size=shapes.get(kind, (18, 3)))
    if kind == "collinear":
        X = X[:, :1] * [3.0, -1.0, 2.0]
    if kind == "pieces":
        X[10:] += 30
    if kind == "outlier":
        X[0] *= 100
    if kind == "complete":
        return X, len(X) - 1
    return X, 3 if kind in ("loose", "pieces") else 5


@pytest.mark.cases(6)
@pytest.mark.filterwarnings("ignore:The neighbour graph falls")
@pytest.mark.parametrize("constraint", ["at_most", "equal"])
@pytest.mark.parametrize("kind", ["rigid", "loose", "pieces", "collinear", "outlier", "complete"])
def test_the_claim_is_two_sided(kind, constraint):
    """A converged objective is within tol of the optimum, above or below."""
    X, k = graph(kind)
    model = MaximumVarianceUnfolding(k, constraint=constraint).fit(X)
    a, b = model.edges_.T
    squared = ((X[a] - X[b]) ** 2).sum(1)
    optimum = unfolding_optimum(model.edges_, squared, len(X), model.sigma_, constraint == "equal")
    certificate = model.certificate_
    assert certificate.status == "converged"
    assert certificate.primal == pytest.approx(optimum, rel=1e-3 + 2e-5)
    assert certificate.dual <= optimum + 2e-5 * abs(optimum)
    assert len(model.multipliers_) == len(model.edges_)


@pytest.mark.filterwarnings("ignore:The neighbour graph falls")
@pytest.mark.parametrize("kind", ["rigid", "loose", "pieces", "collinear", "outlier", "complete"])
def test_equal_distances_from_a_rough_solution(kind, monkeypatch):
    """With many edges the path starts there, and not at the rows; it ends at the same optimum."""
    X, k = graph(kind)
    expected = MaximumVarianceUnfolding(k, constraint="equal", tol=1e-4).fit(X)
    monkeypatch.setattr(maximum_variance_unfolding, "ROUGH_FROM", 0)
    model = MaximumVarianceUnfolding(k, constraint="equal", tol=1e-4).fit(X)
    assert model.certificate_.status == "converged"
    assert model.objective_ == pytest.approx(expected.objective_, rel=2e-4)
    assert model.history_["primal"][0] != expected.history_["primal"][0]


@pytest.mark.cases(3)
@pytest.mark.parametrize("sigma", ["auto", np.inf])
@pytest.mark.parametrize("kind", ["rigid", "outlier", "complete"])
def test_a_face_that_proves_nothing_costs_only_time(kind, sigma, monkeypatch):
    """Then the program over all kernels is solved, without a warning about the first solve."""
    X, k = graph(kind)
    expected = MaximumVarianceUnfolding(k, constraint="equal", sigma=sigma).fit(X)
    monkeypatch.setattr(UnfoldingOnFace, "lifted", lambda self, L, u: self.original.b * 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MaximumVarianceUnfolding(k, constraint="equal", sigma=sigma).fit(X)
    assert model.certificate_.status == "converged"
    assert model.objective_ == pytest.approx(expected.objective_, rel=2e-3)
    assert len(model.multipliers_) == len(model.edges_)


@pytest.mark.parametrize("tol", [1e-2, 1e-3])
@pytest.mark.parametrize("seed", range(3))
def test_a_large_sigma_is_no_harder_and_no_less_true(seed, tol):
    X = np.random.default_rng(seed).normal(size=(22, 3))
    model = MaximumVarianceUnfolding(5, sigma=1e3, constraint="equal", tol=tol).fit(X)
    a, b = model.edges_.T
    squared = ((X[a] - X[b]) ** 2).sum(1)
    optimum = unfolding_optimum(model.edges_, squared, len(X), 1e3, True)
    assert model.certificate_.status == "converged" and model.n_iter_ < 100
    assert model.certificate_.primal == pytest.approx(optimum, rel=tol + 1e-4)
    mapped = model.kernel_matrix()
    kept = mapped[a, a] + mapped[b, b] - 2 * mapped[a, b]
    np.testing.assert_allclose(kept, squared, atol=tol * squared.max())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", [9712, 43])
def test_what_missing_distances_gains_is_not_called_converged(seed):
    """Nearly degenerate graphs, where an error of 1e-7 gains a thousandth of the objective."""
    X = np.random.default_rng(seed).normal(size=(22, 3))
    model = MaximumVarianceUnfolding(5, sigma=1e3, constraint="equal")
    loose = model.fit(X).certificate_
    tight = model.set_params(tol=1e-6).fit(X).certificate_
    bound = max(loose.dual, tight.dual)
    assert loose.status != "converged" or abs(loose.primal - bound) <= 1.5e-3 * abs(bound)
    if loose.status != "converged":
        assert max(loose.relative_gap, loose.violation) > 1e-3


def value_of(X, sigma):
    """The objective, to be minimised, of the rows of X as they are, which keep every distance."""
    X = X.astype(float) - X[0].astype(float)
    variances = np.linalg.svd(X - X.mean(0), compute_uv=False) ** 2
    return (variances**2).sum() / (2 * sigma) - variances.sum()


@pytest.mark.cases(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("constraint", ["at_most", "equal"])
@pytest.mark.parametrize("shift", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("near", [None, 1e-3, 1e-7, 1e-9])
def test_no_bound_is_beaten_by_the_rows_themselves(near, shift, constraint):
    """Wherever the rows are, however nearly two of them coincide."""
    for seed, k, dimension in [(0, 5, 1), (3, 5, 2), (16, 3, 1)]:
        X = np.random.default_rng(seed).random((11, dimension)) + shift
        if near is not None:
            X = np.vstack([X, X[5] + near])
        model = MaximumVarianceUnfolding(k, n_components=1, constraint=constraint).fit(X)
        value = value_of(X, model.sigma_)
        assert model.certificate_.dual <= value + 1e-12 * abs(value)


@pytest.mark.cases(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("constraint", ["at_most", "equal"])
def test_translation_changes_nothing(constraint, dtype, seed, asarray):
    """Rows on a grid, so that their shifts are exact."""
    k, dimension = [(3, 1), (3, 2), (5, 2)][seed]
    X = np.random.default_rng(seed).integers(0, 1 << 10, (14, dimension)) / (1 << 10)
    model = MaximumVarianceUnfolding(k, constraint=constraint)
    here = model.fit(asarray(X.astype(dtype))).certificate_
    for shift in (1.0, 2.0**13) if dtype is np.float32 else (1.0, 2.0**13, 2.0**20):
        there = model.fit(asarray((X + shift).astype(dtype))).certificate_
        assert here.status == there.status == "converged"
        assert there.primal == pytest.approx(here.primal, rel=1e-6)
        assert there.dual == pytest.approx(here.dual, rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("k", [3, 5])
def test_a_conic_solver_beats_no_bound(k, shift):
    X = np.random.default_rng(k).random((12, 2)) + shift
    model = MaximumVarianceUnfolding(k, constraint="equal").fit(X)
    a, b = model.edges_.T
    squared = ((X[a] - X[b]) ** 2).sum(1)
    optimum = unfolding_optimum(model.edges_, squared, len(X), model.sigma_, True)
    assert model.certificate_.dual <= optimum + 2e-5 * abs(optimum)


def test_what_the_distances_determine_is_not_moved():
    X, k = graph("complete")
    model = MaximumVarianceUnfolding(k, n_components=3, constraint="equal").fit(X)
    centred = X - X.mean(0)
    np.testing.assert_allclose(model.kernel_matrix(), centred @ centred.T, atol=1e-6)
    assert model.n_iter_ < 10


def test_scale_of_the_data_scales_the_embedding(arc):
    X, _ = arc
    one = MaximumVarianceUnfolding(n_neighbors=3, tol=1e-2).fit(X)
    other = MaximumVarianceUnfolding(n_neighbors=3, tol=1e-2).fit(1024 * X)
    np.testing.assert_allclose(other.eigenvalues_[:1], 1024**2 * one.eigenvalues_[:1], rtol=1e-6)


def test_coincident_points_stay_together(arc):
    X, _ = arc
    X = np.vstack([X, X[:3], X[:1]])
    for constraint in ("at_most", "equal"):
        model = MaximumVarianceUnfolding(n_neighbors=3, constraint=constraint, tol=1e-2).fit(X)
        assert model.certificate_.status == "converged"
        np.testing.assert_allclose(model.embedding_[40:], model.embedding_[[0, 1, 2, 0]], atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("distance", [1e-5, 1e-7, 1e-9, 1e-13])
def test_near_copies_do_not_shrink_the_others(distance, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 3))
    X = np.vstack([X, X[:5] + distance * rng.normal(size=(5, 3))])
    model = MaximumVarianceUnfolding(5).fit(X)
    assert -model.objective_ <= value_of(X, model.sigma_) * (1 - 1e-5)
    assert model.certificate_.violation == 0 <= model.certificate_.relative_gap


def test_many_points_exceed_no_distance():
    """By the low-rank method: the gap is that of a feasible point."""
    X = make_swiss_roll(160, random_state=0)[0]
    model = MaximumVarianceUnfolding().fit(X)
    a, b = model.edges_.T
    K = model.kernel_matrix()
    excess = K[a, a] + K[b, b] - 2 * K[a, b] - ((X[a] - X[b]) ** 2).sum(1)
    assert excess.max() <= 1e-12 * abs(K).max()
    certificate = model.certificate_
    assert certificate.status == "converged" and certificate.violation == 0
    assert 0 <= certificate.relative_gap <= 1e-3


def test_pieces_are_joined_with_a_warning():
    X, piece = make_blobs(n_samples=[10, 12, 8], random_state=0, cluster_std=0.1)
    with pytest.warns(UserWarning, match="falls into 3 pieces"):
        edges, lengths = neighbour_edges(X, 3)
    np.testing.assert_allclose(lengths, np.linalg.norm(X[edges[:, 0]] - X[edges[:, 1]], axis=1))
    assert (piece[edges[:, 0]] != piece[edges[:, 1]]).sum() >= 2
    assert (edges[:, 0] < edges[:, 1]).all() and len(np.unique(edges, axis=0)) == len(edges)


def test_variance_bound_holds(arc):
    X, _ = arc
    edges, lengths = neighbour_edges(X, 3)
    exact = MaximumVarianceUnfolding(n_neighbors=3, sigma=np.inf, tol=1e-3).fit(X)
    assert exact.objective_ <= variance_bound(edges, lengths, len(X)) * (1 + 1e-3)


def test_landmarks_approximate_the_full_unfolding(arc):
    X, _ = arc
    full = MaximumVarianceUnfolding(n_neighbors=3).fit(X)
    model = MaximumVarianceUnfolding(n_neighbors=3, n_landmarks=15, random_state=0).fit(X)
    assert len(model.landmarks_) == 15 and model.certificate_.status == "converged"
    assert 0.8 * full.objective_ <= model.objective_ <= full.objective_ * 1.01
    again = MaximumVarianceUnfolding(n_neighbors=3, n_landmarks=15, random_state=0).fit(X)
    np.testing.assert_array_equal(model.embedding_, again.embedding_)


@pytest.mark.parametrize("n_landmarks", [10, 20, 40])
@pytest.mark.parametrize("kind", ["arc", "roll"])
def test_landmarks_span_one_direction_less_since_bases_are_centred(kind, n_landmarks, seed):
    rng, angle = np.random.default_rng(seed), np.linspace(0, 4, 400)
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    if kind == "roll":
        X = np.column_stack([angle[:, None] * X, rng.uniform(0, 1, 400)])
    found = landmark_basis(X - X.mean(0), rng.permutation(400)[:n_landmarks], 6)
    assert found.shape[1] == n_landmarks - 1


@pytest.mark.parametrize("apart", [0.0, 1e-13, 1e-10])
def test_landmarks_unfold_rows_that_coincide_as_one_point(arc, apart):
    X = np.vstack([arc[0], arc[0][:3] + apart, arc[0][:1]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MaximumVarianceUnfolding(n_neighbors=3, n_landmarks=15, random_state=0).fit(X)
    alone = MaximumVarianceUnfolding(n_neighbors=3, n_landmarks=15, random_state=0).fit(arc[0])
    assert model.certificate_.status == "converged" and model.certificate_.violation == 0
    assert model.objective_ > 0.8 * alone.objective_
    np.testing.assert_allclose(model.embedding_[40:], model.embedding_[[0, 1, 2, 0]], atol=1e-9)
    given = X - X.mean(0), np.arange(0, 40, 4), 3, np.array([*range(40), 0, 1, 2, 0])
    Q = landmark_basis(*given)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-9)
    np.testing.assert_allclose(Q.sum(0), 0, atol=1e-9)


def test_landmark_basis_is_orthonormal_and_centred(arc):
    Q = landmark_basis(arc[0], np.arange(0, 40, 4), 3)
    np.testing.assert_allclose(Q.T @ Q, np.eye(Q.shape[1]), atol=1e-9)
    np.testing.assert_allclose(Q.sum(0), 0, atol=1e-9)
    assert Q.shape[1] == 9


def test_transform_keeps_training_points_and_interpolates(arc):
    X, _ = arc
    model = MaximumVarianceUnfolding(n_neighbors=3).fit(X[::2])
    np.testing.assert_allclose(model.transform(X[::2]), model.embedding_, atol=1e-9)
    between = model.transform((X[0:-2:2] + X[2::2]) / 2)
    expected = (model.embedding_[:-1] + model.embedding_[1:]) / 2
    assert np.linalg.norm(between - expected, axis=1).mean() < 0.1 * model.embedding_.std()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 40}, "n_neighbors=40"),
        ({"n_components": 40}, "n_components=40"),
        ({"n_landmarks": 20, "constraint": "equal"}, "constraint='at_most'"),
        ({"n_landmarks": 41}, "n_landmarks=41"),
        ({"sigma": 0.0}, "sigma"),
        ({"constraint": "exact"}, "constraint"),
    ],
)
def test_errors_name_the_argument(arc, parameters, message):
    with pytest.raises(ValueError, match=message):
        MaximumVarianceUnfolding(**parameters).fit(arc[0])


def test_nothing_to_unfold():
    with pytest.raises(ValueError, match="coincide"):
        MaximumVarianceUnfolding(n_neighbors=2).fit(np.ones((10, 2)))


def test_two_places_are_as_far_apart_as_they_were():
    X = np.vstack([np.zeros((9, 2)), [[3.0, 4.0]]])
    unfolding = MaximumVarianceUnfolding(n_neighbors=3, sigma=np.inf).fit(X)
    assert unfolding.certificate_.status == "converged"
    assert unfolding.embedding_.shape == (10, 2)
    assert np.linalg.norm(unfolding.embedding_[0] - unfolding.embedding_[9]) == pytest.approx(
        5, rel=1e-3
    )
