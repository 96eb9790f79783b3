"""How estimators come by their neighbours: by a search of either kind, or from the user."""

import numpy as np
import pytest
from learners import check_complete
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import kneighbors_graph

from conemetric import BoostMetric, DMLEig, FrobMetric, FrobMetricCV, LMNNEig, RelativeComparisons
from conemetric.core.arrays import to_numpy
from conemetric.neighbours.search import neighbours_by_label

ESTIMATORS = [
    FrobMetric(tol=1e-2),
    LMNNEig(tol=1e-2),
    DMLEig(tol=1e-2),
    BoostMetric(max_iter=5, tol=0.5),
    RelativeComparisons(tol=1e-2),
]
check_complete(ESTIMATORS, "neighbors")


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def estimator(request):
    return request.param


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    return rng.normal(size=(120, 4)) + 2 * rng.normal(size=(3, 4))[y], y


@pytest.mark.costly
def test_given_neighbours_are_those_of_a_search(estimator, data, asarray):
    X, y = data
    estimator.set_params(n_impostors=3)
    searched = estimator.fit(asarray(X), y).components_
    assert estimator.n_references_ is None
    found = neighbours_by_label(X, y, 3, 3)
    for neighbors in (found[:2], kneighbors_graph(X, 119, mode="distance")):
        estimator.fit(asarray(X), y, neighbors=neighbors)
        assert_array_equal(to_numpy(estimator.components_), to_numpy(searched))


def test_given_neighbours_are_used(estimator, data):
    X, y = data
    targets, impostors = neighbours_by_label(X, y, 1, 1)
    impostors[60:] = -1
    estimator.fit(X, y, neighbors=(targets, impostors))
    if isinstance(estimator, DMLEig):
        assert len(estimator.pairs_) == 120 + 60
    else:
        assert_array_equal(estimator.triplets_[:, 0], np.arange(60))


def test_neighbours_go_with_labels_alone(estimator, data):
    X, y = data
    found = neighbours_by_label(X, y, 3, 3)[:2]
    constraints = {"triplets": [[0, 1, 2]]}
    if isinstance(estimator, DMLEig):
        constraints = {"pairs": [[0, 1], [0, 2]], "similar": [True, False]}
    for wrong in ({}, constraints, {"y": np.linspace(0, 1, 120)}):
        quantity = isinstance(estimator, DMLEig) and "y" in wrong  # refused with or without
        message = "y is a quantity" if quantity else "go (only )?with rows X and class labels y"
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, **wrong, neighbors=found)


def test_neighbours_are_searched_among_a_sample_if_asked(estimator, data):
    X, y = data
    if "n_references" not in estimator.get_params():
        pytest.skip("searches all rows")
    estimator.set_params(random_state=3, n_references=40)
    first = to_numpy(estimator.fit(X, y).components_)
    assert estimator.n_references_ == 40
    given = estimator.pairs_ if isinstance(estimator, DMLEig) else estimator.triplets_
    assert len(np.unique(to_numpy(given)[:, 1:])) <= 41  # rounding may add one of a class
    assert_array_equal(to_numpy(estimator.fit(X, y).components_), first)
    estimator.set_params(n_references="auto")
    assert estimator.fit(X, y).n_references_ is None


def test_new_passes_cannot_go_on_with_given_neighbours(data):
    X, y = data
    with pytest.raises(ValueError, match="n_passes=1 with triplets or neighbors"):
        BoostMetric(n_passes=2).fit(X, y, neighbors=neighbours_by_label(X, y, 3, 3)[:2])


def test_cross_validation_searches_as_told(data, monkeypatch):
    X, y = data
    asked = []

    def search(*args):
        asked.append(len(args[4]))
        return neighbours_by_label(*args)

    monkeypatch.setattr("conemetric.estimators.supervised.neighbours_by_label", search)
    FrobMetricCV(Cs=2, cv=2, tol=1e-2, n_references=30).fit(X, y)
    assert len(asked) == 3 and set(asked) <= {29, 30, 31}  # classes round


def test_neighbours_pass_through_a_search_of_parameters(data):
    """Metadata routing takes the keyword, so that a pipeline can hand neighbours on."""
    import sklearn
    from sklearn.pipeline import make_pipeline

    X, y = data
    found = neighbours_by_label(X, y, 3, 3)[:2]
    with sklearn.config_context(enable_metadata_routing=True):
        metric = FrobMetric(tol=1e-2, n_impostors=3).set_fit_request(neighbors=True)
        piped = make_pipeline(metric).fit(X, y, neighbors=found)
    plain = FrobMetric(tol=1e-2, n_impostors=3).fit(X, y)
    assert_allclose(piped[-1].components_, plain.components_)
