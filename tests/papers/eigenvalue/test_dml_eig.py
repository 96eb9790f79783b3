"""DMLEig: pairs, given and from labels, and degenerate ones."""

import numpy as np
import pytest
from recomputed import closest_dissimilar
from sklearn.datasets import load_iris

from conemetric import DMLEig
from conemetric.core.arrays import to_numpy

IRIS, LABELS = load_iris(return_X_y=True)


def test_labels_and_their_pairs_give_the_same_fit():
    labels = DMLEig(n_targets=2, n_impostors=1).fit(IRIS, LABELS)
    pairs = DMLEig().fit(IRIS, pairs=labels.pairs_, similar=labels.similar_)
    np.testing.assert_array_equal(labels.components_, pairs.components_)


def test_a_dissimilar_pair_at_distance_zero_makes_the_optimum_zero(asarray):
    X, y = IRIS[::3].copy(), LABELS[::3].copy()
    pairs = DMLEig().fit(X, y)
    X = np.vstack([X, X[:1]])
    P, s = np.vstack([pairs.pairs_, [[0, len(X) - 1]]]), np.append(pairs.similar_, False)
    with pytest.warns(UserWarning, match="1 of the .* dissimilar pairs join coinciding points"):
        metric = DMLEig().fit(asarray(X), pairs=P, similar=s)
    assert metric.objective_ == 0
    assert metric.certificate_.dual == 0
    assert metric.certificate_.relative_gap == 0
    # any metric is optimal; the one of the other pairs is returned (its scatter differs
    # by one point more in the ridge)
    distances = to_numpy(metric.pair_distance(asarray(X[P[~s][:-1]])))
    assert distances.min() ** 2 == pytest.approx(pairs.objective_, rel=2e-3)
    with pytest.raises(ValueError, match="all 1 dissimilar pairs join coinciding points"):
        DMLEig().fit(X, pairs=[[0, 1], [0, len(X) - 1]], similar=[True, False])


def test_a_dissimilar_pair_that_single_precision_would_join(asarray):
    X = IRIS[::3].astype(np.float32)
    X[1], X[1, 3] = X[0], np.nextafter(X[0, 3], np.float32(1))
    pairs = [[0, 1], [0, 30], [1, 40], *([i, i + 1] for i in range(2, 16))]
    similar = {"pairs": pairs, "similar": np.arange(len(pairs)) > 2}
    metric = DMLEig(max_iter=20).fit(asarray(X), **similar)
    assert np.isfinite(to_numpy(metric.components_)).all()
    assert -np.inf < metric.certificate_.dual <= metric.certificate_.primal


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pairs": [[0, 1]]}, "pairs without similar"),
        ({"y": LABELS, "similar": [True]}, "similar without pairs"),
        ({"pairs": [[0, 1], [1, 2]], "similar": [True, True]}, "2 of 2 pairs similar"),
        ({"pairs": [[0, 1], [1, 2]], "similar": [True]}, "one value for each of the 2 pairs"),
        ({"pairs": [[0, 1], [1, 999]], "similar": [True, False]}, "index out of range"),
        ({}, "pairs and similar"),
    ],
)
def test_bad_pairs_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        DMLEig().fit(IRIS, **arguments)


@pytest.mark.parametrize("apart", [1e-15, 1e-12, 1e-10, 1e-9, 1e-8])
@pytest.mark.parametrize("units", [1.0, 1e-9])
@pytest.mark.parametrize("partitions", [0, 2])
@pytest.mark.costly
def test_rows_of_different_classes_that_coincide_up_to_rounding_decide_nothing(
    apart, units, partitions
):
    """Before, the metric was zero. Units of a feature do not matter: rows that differ in a small one
    alone are no copies.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 2
    X[:, 0] *= units
    X[1] = X[0] + apart * rng.normal(size=4) * [units, 1, 1, 1]
    X[3] = X[2] + [0.5 * units, 0, 0, 0]
    if partitions:
        array = pytest.importorskip("dask.array")
        rows = [array.from_array(part, chunks=40 // partitions) for part in (X, y)]
    else:
        rows = X, y
    with pytest.warns(UserWarning, match="of the .* dissimilar pairs coincide up to rounding"):
        metric = DMLEig(n_impostors=1).fit(*rows)
    known = DMLEig(n_impostors=1).fit(X, y)
    distances = known.pair_distance(X[known.pairs_[~known.similar_]])
    assert np.sort(distances)[2] > 1e-2 * np.median(distances)  # the others are kept apart
    certificate = metric.certificate_
    d = X[1] - X[0]
    optimum = d @ np.linalg.solve(known.similar_scatter_, d)
    assert certificate.primal >= -optimum * (1 + 1e-3)
    assert optimum * (1 - 1e-6) <= -certificate.dual <= 2 * optimum + 1e-28
    assert certificate.relative_gap <= 1
    assert metric.objective_ == -certificate.primal


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7, 1e-8, 1e-9])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_dissimilar_rows_that_nearly_coincide_get_a_bound_with_all_its_digits(apart, shift, seed):
    """The optimum is of the order of the square of their distance, below the rounding of
    products of coordinates.
    """
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(16, 5)), np.arange(16) % 2
    X[1] = X[0] + apart * rng.normal(size=5)
    X += shift
    metric = DMLEig(n_targets=2, n_impostors=1).fit(X, y)
    value, d = -closest_dissimilar(metric, X), X[1] - X[0]
    assert value <= -metric.certificate_.dual * (1 + 1e-6)
    # no metric keeps one pair farther apart than the one made for it
    most = d @ np.linalg.solve(metric.similar_scatter_, d)
    assert -metric.certificate_.dual <= most * 1.1
