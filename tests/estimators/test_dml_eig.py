"""DMLEig: pairs, given and from labels, and degenerate ones."""

import numpy as np
import pytest
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
