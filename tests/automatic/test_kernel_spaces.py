"""AutoMetric in the coordinates of kernels: chosen where held-out rows are clearly better, and one map."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_circles
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conemetric import AutoMetric, FrobMetric, MetricClassifier, load_metric, save_metric
from conemetric.automatic import kernel_spaces
from conemetric.automatic.folds import LabelledFolds
from conemetric.core.arrays import to_numpy
from conemetric.core.progress import all_or_nothing

QUICK = {"FrobMetric": FrobMetric(tol=0.1)}


@pytest.fixture(scope="module")
def rings():
    """Two rings in two of four columns, where no linear map helps."""
    X, y = make_circles(240, noise=0.12, factor=0.6, random_state=0)
    return np.hstack([X, np.random.default_rng(0).normal(size=(240, 2))]), y


@pytest.fixture(scope="module")
def metric(rings):
    return AutoMetric(candidates=QUICK, kernel="auto", random_state=0).fit(*rings)


def test_a_kernel_is_chosen_where_no_straight_line_separates(rings, metric):
    X, y = make_circles(240, noise=0.12, factor=0.6, random_state=1)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(240, 2))])
    assert metric.space_ in kernel_spaces.KERNELS
    linear = AutoMetric(candidates=QUICK, random_state=0).fit(*rings)
    errors = []
    for each in (linear, metric):
        vote = KNeighborsClassifier(3).fit(each.transform(rings[0]), rings[1])
        errors.append(1 - vote.score(each.transform(X), y))
    assert errors[1] < 0.7 * errors[0]
    assert metric.space_errors_["linear"] == linear.evidence_.error["blend"]
    assert metric.evidence_.error["blend"] == metric.space_errors_[metric.space_]
    assert metric.evidence_.error["Euclidean"] == linear.evidence_.error["Euclidean"]
    assert set(metric.certificates_) <= {"RelativeComparisons", "FrobMetric", "LDA"}


def test_without_a_sure_gain_it_is_the_linear_metric(rings):
    X, y = load_iris(return_X_y=True)
    linear = AutoMetric(candidates=QUICK, random_state=0).fit(X, y)
    metric = AutoMetric(candidates=QUICK, kernel="auto", random_state=0).fit(X, y)
    assert metric.space_ == "linear"
    assert metric.kernel_coordinates_ is None
    assert np.array_equal(metric.components_, linear.components_)
    assert len(metric.space_errors_) == 2
    assert linear.space_errors_.keys() == {"linear"}


def test_a_later_linear_fit_drops_the_kernel(rings, metric):
    assert metric.kernel_coordinates_ is not None
    again = deepcopy(metric).set_params(kernel=None).fit(*rings)
    assert again.kernel_coordinates_ is None
    assert again.transform(rings[0]).shape[1] <= 4


def test_the_blend_is_the_sum_over_folds(rings):
    X, y = rings
    rows = LabelledFolds(X, y, 3, np.random.RandomState(0))
    blend = kernel_spaces.blend_of(kernel_spaces.KernelFolds(rows, "gaussian"), QUICK)
    mapping, scales = blend.mapped(None)
    Z = mapping(X).coordinates * scales
    expected = np.zeros((len(X), len(X)))
    for f, fold in enumerate(rows.folds):
        for name, metrics in blend.found.items():
            mapped = blend.rows.points(fold) @ metrics[f].L
            squares = ((mapped[:, None] - mapped) ** 2).sum(-1)
            expected += blend.weighed.weights[name] * squares
    found = ((Z[:, None] - Z) ** 2).sum(-1)
    assert_allclose(found, expected, atol=1e-3 * expected.max())
    assert (np.diff(scales) <= 0).all()


def test_held_out_rows_are_no_landmarks(rings):
    rows = LabelledFolds(*rings, 3, np.random.RandomState(0))
    folds = kernel_spaces.KernelFolds(rows, "laplacian")
    for fold, landmarks in zip(rows.folds, folds.landmarks, strict=True):
        assert not np.isin(fold.held_out, landmarks).any()


def test_files_pickles_and_pipelines(rings, metric, tmp_path):
    X, y = rings
    save_metric(tmp_path / "file.safetensors", metric)
    assert np.array_equal(
        load_metric(tmp_path / "file.safetensors").transform(X), metric.transform(X)
    )
    assert np.array_equal(pickle.loads(pickle.dumps(metric)).transform(X), metric.transform(X))
    with pytest.raises(ValueError, match="use transform"):
        metric.get_mahalanobis_matrix()
    pipeline = make_pipeline(
        StandardScaler(), AutoMetric(candidates=QUICK, kernel="auto", random_state=0)
    )
    save_metric(tmp_path / "file.safetensors", pipeline.fit(X, y))
    again = load_metric(tmp_path / "file.safetensors")
    assert_allclose(again.transform(X), pipeline.transform(X), atol=1e-7)
    few = AutoMetric(candidates=QUICK, kernel="auto", n_components=2, random_state=0).fit(X, y)
    assert few.transform(X).shape == (240, 2)


@pytest.mark.costly
def test_tensors(rings, metric, asarray):
    X = asarray(rings[0])
    found = AutoMetric(candidates=QUICK, kernel="auto", random_state=0).fit(X, rings[1])
    assert found.space_ == metric.space_
    assert type(found.transform(X)) is type(X)
    assert_allclose(to_numpy(found.transform(X)), metric.transform(rings[0]), atol=1e-5)


def test_ctrl_c_among_kernels_keeps_the_linear_blend(rings, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_spaces, "best_blend", interrupted)
    metric = AutoMetric(candidates=QUICK, kernel="auto", random_state=0).fit(*rings)
    assert metric.interrupted_
    assert metric.space_ == "linear"
    with all_or_nothing(), pytest.raises(KeyboardInterrupt):
        AutoMetric(candidates=QUICK, kernel="auto", random_state=0).fit(*rings)


def test_classifiers_learn_linear_maps(rings, coarse_search):
    decided = MetricClassifier(random_state=0).fit(*(each[::2] for each in rings))
    assert decided.metric_.space_errors_.keys() == {"linear"}
    with pytest.raises(ValueError, match="linear map"):
        MetricClassifier(AutoMetric(candidates=QUICK, kernel="auto"), random_state=0).fit(*rings)
