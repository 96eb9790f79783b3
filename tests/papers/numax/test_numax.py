"""NuMax as a user meets it: scikit-learn's conventions, the promise on every pair,
ranks, paths, errors.
"""

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from conemetric import NuMax, numax_path
from conemetric.core.arrays import to_numpy
from conemetric.core.progress import watching
from conemetric.papers.numax.measures import isometry_constant
from conemetric.papers.numax.numax import LARGEST_DELTA
from conemetric.papers.numax.secant_generation import SecantGeneration


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(30, 6)) * 2.0 ** -np.arange(6)


@pytest.fixture(scope="module")
def y():
    return np.random.default_rng(1).integers(0, 3, 30)


def squared_ratios(X, model):
    a, b = np.triu_indices(len(X), 1)
    d = X[a] - X[b]
    return ((d @ to_numpy(model.components_).T) ** 2).sum(1) / (d**2).sum(1), a, b


def test_every_distance_is_kept(X, asarray):
    model = NuMax(0.3).fit(asarray(X))
    ratio, _, _ = squared_ratios(X, model)
    assert abs(ratio - 1).max() <= 0.3 * (1 + 1e-3)
    assert model.certificate_.relative_gap <= 1e-3 and model.certificate_.violation <= 1e-3
    assert type(model.components_) is type(asarray(X))
    assert_allclose(model.objective_, (to_numpy(model.components_) ** 2).sum())
    assert len(model.active_pairs_) == len(model.multipliers_)


@pytest.mark.parametrize("shape", ["fewer points than features", "copied features"])
def test_points_in_a_subspace_are_kept_as_well(shape, asarray, dtype):
    rng = np.random.default_rng(0)
    X = (
        rng.normal(size=(9, 40))
        if shape[0] == "f"
        else rng.normal(size=(25, 4))[:, [0, 1, 2, 3, 0, 1, 1, 2]] * 10 + 3
    )
    X = X.astype(dtype)
    model = NuMax(0.2).fit(asarray(X))
    ratio, _, _ = squared_ratios(X.astype(float), model)
    assert abs(ratio - 1).max() <= 0.2 * (1 + 1e-3) + 200 * np.finfo(dtype).eps
    assert model.certificate_.status == "converged"
    basis = np.linalg.svd(X.astype(float) - X.mean(0), full_matrices=False)[2][
        : 8 if shape[0] == "f" else 4
    ]
    assert_allclose(
        model.objective_, NuMax(0.2).fit((X - X.mean(0)) @ basis.T).objective_, rtol=2e-3
    )


@pytest.mark.cases(6)
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("shape", [(40, 60), (60, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_near_copies_in_single_precision_miss_by_no_more_than_is_certified(
    shape, listed, seed, asarray
):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape) + 30.0
    X[:10] = X[10:20] + 1e-4 * rng.normal(size=(10, shape[1]))
    X = X.astype(np.float32)
    pairs = np.stack(np.triu_indices(len(X), 1), 1) if listed else None
    model = NuMax(0.2).fit(asarray(X), pairs=pairs)
    ratio, _, _ = squared_ratios(X.astype(float), model)
    assert to_numpy(model.components_).dtype == np.float32
    assert_allclose(
        model.certificate_.violation, max(0, (abs(ratio - 1) / 0.2 - 1).max()), atol=1e-5
    )
    assert_allclose(isometry_constant(model, asarray(X)).worst, abs(ratio - 1).max(), atol=1e-6)


@pytest.mark.costly
def test_classes_loosen_one_side_each(X, y, asarray):
    model, plain = NuMax(0.3, class_aware=True).fit(asarray(X), y), NuMax(0.3).fit(X)
    ratio, a, b = squared_ratios(X, model)
    same = y[a] == y[b]
    assert ratio[same].max() <= 1.3 + 3e-4 and ratio[~same].min() >= 0.7 - 3e-4
    assert model.objective_ < plain.objective_
    # labels do not matter to the plain program
    assert_array_equal(NuMax(0.3).fit(X, y).components_, plain.components_)


def test_labels_and_similar_pairs_say_the_same(X, y):
    pairs = np.stack(np.triu_indices(len(X), 1), 1)
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    traces = [
        NuMax(0.3, class_aware=True).fit(X, y).objective_,
        NuMax(0.3, class_aware=True).fit(X, pairs=pairs, similar=similar).objective_,
        NuMax(0.3, class_aware=True).fit(X, y, pairs=pairs).objective_,
    ]
    assert_allclose(traces, traces[0], rtol=2e-3)


@pytest.fixture(scope="module")
def rank_four(X):
    return NuMax(n_components=4).fit(X)


def test_n_components_finds_the_smallest_delta_of_that_rank(X, rank_four):
    model = rank_four
    assert len(model.components_) <= 4
    ratio, _, _ = squared_ratios(X, model)
    assert abs(ratio - 1).max() <= model.delta_ * (1 + 1e-3)
    assert len(NuMax(model.delta_ - 0.02).fit(X).components_) > 4


def test_path_has_rising_ranks_and_matches_single_fits(X):
    path = numax_path(X, deltas=[0.2, 0.6, 0.4])
    assert [metric.delta_ for metric in path] == [metric.delta for metric in path]
    assert [metric.delta for metric in path] == [0.6, 0.4, 0.2]
    assert (np.diff([len(metric.components_) for metric in path]) >= 0).all()
    assert (np.diff([metric.objective_ for metric in path]) > 0).all()
    assert_allclose(path[1].objective_, NuMax(0.4).fit(X).objective_, rtol=2e-3)
    for metric in path:
        certificate = metric.certificate_
        assert certificate.violation <= 1e-3 and certificate.relative_gap <= 1e-3


def test_units_and_position_do_not_matter(X):
    P = NuMax(0.3).fit(X).get_mahalanobis_matrix()
    assert_allclose(NuMax(0.3).fit(1e-4 * X + 7).get_mahalanobis_matrix(), P, atol=1e-3)


@pytest.mark.parametrize("value", [0.1, 1e8 + 0.1, -1e-8])
@pytest.mark.parametrize("shape", [(3, 1), (7, 3), (3, 8), (60, 2)])
def test_rows_that_all_coincide_are_refused(shape, value, asarray, dtype):
    X = asarray(np.full(shape, value, dtype))
    with pytest.raises(ValueError, match=r"no two distinct points.*rows that differ"):
        NuMax(0.5).fit(X)
    with pytest.raises(ValueError, match=r"no two distinct points.*rows that differ"):
        NuMax(0.5).fit(csr_array(to_numpy(X)))
    with pytest.raises(ValueError, match=r"no two distinct points.*rows that differ"):
        NuMax(0.5).fit(X, pairs=[[0, 1], [1, 2]])


@pytest.mark.filterwarnings("ignore:.*coincide")
@pytest.mark.parametrize("value", [0.1, 1e8 + 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_one_row_that_differs_is_found_among_many_that_coincide(seed, value):
    X = np.full((1500, 2), value)
    X[seed] += 1.0
    model = NuMax(0.5, random_state=seed).fit(X)
    assert model.certificate_.status == "converged"
    assert model.objective_ == pytest.approx(0.5, rel=1e-2)


def test_near_duplicates_are_reported(X):
    with pytest.warns(UserWarning, match="1 pairs of rows coincide"):
        model = NuMax(0.5).fit(np.vstack([X, X[:1]]))
    assert model.n_near_duplicates_ == 1
    assert NuMax(0.5).fit(X).n_near_duplicates_ == 0


def interrupted_at_solve(number):
    """A watcher that presses Ctrl-C at the beginning of this solve."""
    begun = []

    def watch(record):
        begun.extend([True] * (record.get("iteration") == 0))
        if len(begun) == number:
            raise KeyboardInterrupt

    return watching(watch)


def test_ctrl_c_ends_a_search_with_the_best_embedding_found(X, rank_four):
    with interrupted_at_solve(4), pytest.warns(ConvergenceWarning, match="smallest found"):
        model = NuMax(n_components=4).fit(X)
    assert model.certificate_.status == "interrupted" and model.certificate_.violation <= 1e-3
    assert model.components_.shape[0] <= 4 and model.delta_ > rank_four.delta_
    with interrupted_at_solve(3):
        path = numax_path(X, deltas=[0.6, 0.4, 0.3, 0.2])
    assert [metric.delta for metric in path] == [0.6, 0.4]
    assert all(metric.certificate_.status == "converged" for metric in path)


def test_a_rank_out_of_reach_is_reported(X):
    with pytest.warns(ConvergenceWarning, match="n_components=1"):
        model = NuMax(n_components=1).fit(X)
    assert model.components_.shape == (1, 6)
    ratio, _, _ = squared_ratios(X, model)
    assert_allclose(
        model.certificate_.violation, (1 - LARGEST_DELTA - ratio.min()) / LARGEST_DELTA, rtol=1e-6
    )


def test_a_seed_decides_the_bits(X):
    first, second = (NuMax(0.5, random_state=3).fit(X).components_ for _ in range(2))
    assert_array_equal(first, second)


def test_too_few_rounds_warn_and_still_certify(monkeypatch):
    X = load_digits().data[:50, ::4] + np.arange(50)[:, None] * 1e-3
    monkeypatch.setattr(
        "conemetric.papers.numax.numax.SecantGeneration",
        partial(SecantGeneration, first=100, add=20),
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = NuMax(0.2, max_iter=1).fit(X)
    assert model.certificate_.status == "max_iter"
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        exact = NuMax(0.2).fit(X).certificate_
    assert model.certificate_.dual <= exact.primal


@pytest.mark.parametrize(
    ("parameters", "fit", "message"),
    [
        ({}, {"pairs": [[0, 99]]}, "from 0 to 29"),
        ({}, {"pairs": [[0.5, 1.0]]}, "integer"),
        ({}, {"pairs": [0, 1]}, "shape"),
        ({}, {"similar": [True]}, "similar without pairs"),
        ({}, {"pairs": [[0, 1]], "similar": [True]}, "class_aware=True"),
        ({}, {"pairs": [[3, 3]]}, "join a point to itself"),
        ({"class_aware": True}, {}, "requires y"),
        ({"class_aware": True}, {"y": np.zeros(30)}, "1 class"),
        ({"class_aware": True}, {"pairs": [[0, 1]]}, "similar"),
        (
            {"class_aware": True},
            {"pairs": [[0, 1]], "similar": [True, False]},
            "one value for each",
        ),
        ({"class_aware": True}, {"pairs": [[0, 1], [0, 2]], "similar": [1, 2]}, "only 0 and 1"),
        ({"class_aware": True}, {"pairs": [[0, 1]], "similar": ["no"]}, "only 0 and 1"),
        (
            {"class_aware": True},
            {"pairs": [[0, 1]], "similar": [True], "y": [0, 1] * 15},
            "both y and similar",
        ),
        ({"n_components": 7}, {}, "n_components=7"),
        ({"delta": 1.0}, {}, "delta"),
        ({"delta": 0.0}, {}, "delta"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(X, parameters, fit, message):
    with pytest.raises(ValueError, match=message):
        NuMax(**parameters).fit(X, **fit)


def test_path_refuses_deltas_outside_the_unit_interval(X):
    for deltas in ([0.5, 1.5], [], "a", [np.nan]):
        with pytest.raises(ValueError, match="numbers strictly between 0 and 1"):
            numax_path(X, deltas=deltas)
    with pytest.raises(TypeError, match="pass deltas alone"):
        numax_path(X, deltas=[0.5], delta=0.3)
