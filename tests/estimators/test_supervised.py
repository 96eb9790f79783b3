"""What the estimators that learn from labels or constraints have in common on the way in."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from conemetric import BoostMetric, DMLEig, FrobMetric, LMNNEig, RelativeComparisons

TRIPLETS = np.array([[0, 1, 2], [2, 3, 0], [4, 5, 1], [50, 51, 0], [100, 101, 60]])


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "metric",
    [FrobMetric(), LMNNEig(), RelativeComparisons(), BoostMetric(v=1.0, loss="logistic")],
    ids=lambda metric: type(metric).__name__,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_beside_triplets_change_nothing(metric, iris):
    X, y = iris
    alone = metric.fit(X, triplets=TRIPLETS).components_
    assert_array_equal(metric.fit(X, y, triplets=TRIPLETS).components_, alone)


def test_labels_beside_pairs_change_nothing(iris):
    X, y = iris
    given = {"pairs": [[0, 1], [50, 51], [0, 50], [1, 51]], "similar": [1, 1, 0, 0]}
    alone = DMLEig().fit(X, **given).components_
    assert_array_equal(DMLEig().fit(X, y, **given).components_, alone)


def test_triplets_in_a_pipeline_whose_last_step_needs_labels(iris):
    X, y = iris
    with config_context(enable_metadata_routing=True):
        metric = FrobMetric().set_fit_request(triplets=True)
        pipeline = make_pipeline(metric, KNeighborsClassifier(3)).fit(X, y, triplets=TRIPLETS)
    assert_array_equal(pipeline[0].triplets_, TRIPLETS)
    assert pipeline.score(X, y) > 1 / 3
