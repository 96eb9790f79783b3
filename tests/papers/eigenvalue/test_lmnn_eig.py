"""LMNNEig: triplets, given and from labels."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from conemetric import LMNNEig

IRIS, LABELS = load_iris(return_X_y=True)


def test_labels_and_their_triplets_give_the_same_fit():
    labels = LMNNEig(n_targets=2, n_impostors=1).fit(IRIS, LABELS)
    triplets = LMNNEig().fit(IRIS, triplets=labels.triplets_)
    np.testing.assert_array_equal(labels.components_, triplets.components_)


def test_rows_of_the_metric_are_cut_to_n_components():
    full = LMNNEig().fit(IRIS, LABELS)
    cut = LMNNEig(n_components=1).fit(IRIS, LABELS)
    np.testing.assert_array_equal(cut.components_, full.components_[:1])


@pytest.mark.parametrize("parameter", [{"gamma": 0.0}, {"gamma": 1.0}, {"ridge": 0}, {"tol": -1}])
def test_bad_parameters_are_refused(parameter):
    with pytest.raises(ValueError, match=next(iter(parameter))):
        LMNNEig(**parameter).fit(IRIS, LABELS)
