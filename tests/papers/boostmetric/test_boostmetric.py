"""BoostMetric as a user meets it: scikit-learn's conventions, every variant, passes,
early stopping, stages, errors.
"""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from recomputed import recomputed_objective
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from conemetric import BoostMetric, CollapsedMetricWarning
from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.core.arrays import to_numpy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def concentric_circles(n_per_class, noise):
    """Four concentric circles in two dimensions, and eight dimensions of noise."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), n_per_class)
    angle = rng.uniform(0, 2 * np.pi, len(y))
    plane = (1 + y)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.hstack([plane, noise * rng.normal(size=(len(y), 8))]), y


@pytest.fixture(scope="module")
def circles():
    return concentric_circles(100, 1.0)


def test_finds_the_informative_plane():
    metric = BoostMetric(max_iter=60).fit(*concentric_circles(150, 2.0))
    values = (metric.components_**2).sum(axis=1)
    assert values[:2].sum() > 0.95 * values.sum()
    assert (metric.components_[:2, :2] ** 2).sum() > 0.95 * values[:2].sum()


VARIANTS = [
    {"loss": loss, "solver": solver, "n_passes": passes}
    for loss in ("exponential", "logistic")
    for solver in ("stagewise", "corrective")
    for passes in (1, 2)
] + [
    {"loss": "hinge", "v": 0.005, "n_passes": passes, "n_targets": 1, "n_impostors": 1}
    for passes in (1, 2)
]


@pytest.mark.parametrize(
    "parameters", VARIANTS, ids=lambda p: "-".join(str(value) for value in p.values())
)
@pytest.mark.costly
def test_every_variant_improves_on_the_euclidean_metric(circles, parameters):
    X, y = circles
    knn, few = KNeighborsClassifier(3), np.arange(len(y)) % 4 != 0
    before = knn.fit(X[few], y[few]).score(X[~few], y[~few])
    metric = BoostMetric(max_iter=15, **parameters).fit(X[few], y[few])
    after = knn.fit(metric.transform(X[few]), y[few]).score(metric.transform(X[~few]), y[~few])
    assert after > before + 0.03
    assert metric.n_passes_ == parameters["n_passes"]
    assert metric.n_iter_ <= 15 * metric.n_passes_
    assert np.array_equal(np.unique(metric.history_["pass"]), np.arange(metric.n_passes_))


def test_labels_and_triplets_give_the_same_metric_in_both_libraries(iris, asarray, dtype):
    X, y = iris[0].astype(dtype), iris[1]
    triplets = triplets_from_labels(X, y, 3, 3)
    boost = BoostMetric(1.0, solver="stagewise", max_iter=8)
    by_labels = clone(boost).fit(asarray(X), asarray(y))
    by_triplets = clone(boost).fit(asarray(X), triplets=asarray(triplets))
    # in the same triplets: rounding to float32 makes and breaks ties
    reference = clone(boost).fit(iris[0], triplets=triplets)
    M = reference.get_mahalanobis_matrix()
    for metric in (by_labels, by_triplets):
        assert to_numpy(metric.components_).dtype == dtype
        assert_allclose(
            to_numpy(metric.get_mahalanobis_matrix()),
            M,
            atol=(1e-9 if dtype == np.float64 else 2e-3) * abs(M).max(),
        )
        assert_allclose(metric.objective_, reference.objective_, rtol=1e-4)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"solver": "corrective"},
        {"n_passes": 2},
    ],
)
def test_the_last_stage_is_the_metric(circles, parameters):
    X, y = circles
    metric = BoostMetric(**{"max_iter": 10, **parameters}).fit(X, y)
    stages = list(metric.staged_metrics())
    assert len(stages) >= metric.n_iter_ - 1
    assert_allclose(
        stages[-1].T @ stages[-1],
        metric.get_mahalanobis_matrix(),
        atol=1e-9 * abs(stages[-1]).max() ** 2,
    )


def test_the_hinge_has_no_stages(iris):
    metric = BoostMetric(loss="hinge", tol=0.1).fit(*iris)
    with pytest.raises(ValueError, match=r"loss='hinge' is solved without learners.*give loss="):
        next(metric.staged_metrics())


def test_passes_end_when_nothing_changes():
    """Two far-apart groups on a line: the learned scale leaves every neighbour where it was."""
    X = np.array([[0.0], [1.0], [3.0], [50.0], [51.0], [53.0]])
    metric = BoostMetric(v=1e-3, loss="logistic", n_passes=5, n_targets=1, n_impostors=1).fit(
        X, [0, 0, 0, 1, 1, 1]
    )
    assert metric.n_passes_ == 1


@pytest.mark.costly
@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_the_default_converges_on_ordinary_data(load):
    X, y = load(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric = BoostMetric().fit(StandardScaler().fit_transform(X), y)
    certificate = metric.certificate_
    assert certificate.status == "converged"
    assert certificate.relative_gap <= 1e-3 and certificate.violation == 0


def test_a_program_without_a_minimum_says_so():
    X, y = load_wine(return_X_y=True)
    metric = BoostMetric(1e-7, loss="exponential", solver="stagewise")
    with pytest.warns(ConvergenceWarning, match="BoostMetric ended as 'unbounded'.*no minimum"):
        certificate = metric.fit(StandardScaler().fit_transform(X), y).certificate_
    assert certificate.status == "unbounded"
    assert certificate.relative_gap == np.inf and certificate.dual == -np.inf


@pytest.mark.parametrize("loss", ["logistic", "exponential", "hinge"])
@pytest.mark.costly
def test_the_default_v_has_no_units(loss, iris):
    first = BoostMetric(loss=loss).fit(*iris)
    second = BoostMetric(loss=loss).fit(iris[0] * 1000, iris[1])
    power = 0 if loss == "hinge" else 2
    assert second.v_ == pytest.approx(first.v_ * 1000**power, rel=1e-9)
    zero = BoostMetric(100 * first.v_, loss=loss) if power else None
    if zero is not None:  # from there on the zero metric is optimal
        with pytest.warns(CollapsedMetricWarning):
            assert not zero.fit(*iris).components_.any()


@pytest.mark.filterwarnings("ignore::conemetric.CollapsedMetricWarning")
@pytest.mark.parametrize("constant", [0.0, -3e-5, 0.1])
@pytest.mark.parametrize("loss", ["logistic", "exponential"])
def test_the_rounding_of_a_constant_column_is_no_scale_of_v(constant, loss):
    """Impostors are closer than targets, so that the zero metric is optimal for every v."""
    x = np.repeat(np.random.default_rng(0).normal(size=8), 2) + np.tile([0.0, 0.01], 8)
    X = np.column_stack([np.full(16, constant), x])
    metric = BoostMetric(loss=loss, n_targets=1, n_impostors=1).fit(X, np.arange(16) % 2)
    assert metric.v_ == 1.0
    assert metric.certificate_.status == "converged" and not metric.components_.any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_components", [None, 2])
@pytest.mark.parametrize("loss", ["logistic", "exponential", "hinge"])
@pytest.mark.costly
def test_the_last_of_several_passes_is_certified_where_it_was_learned(loss, n_components, dtype):
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    X = (rng.normal(size=(30, 4)) + rng.normal(size=(3, 4))[y]).astype(dtype)
    before = BoostMetric(loss=loss).fit(X, y)
    metric = BoostMetric(loss=loss, n_passes=2, n_components=n_components).fit(X, y)
    assert metric.n_passes_ == 2
    C, proof = before.components_.astype(np.float64), metric.certificate_
    W, Z = metric.components_ @ np.linalg.pinv(C), X @ C.T
    assert_allclose(W @ C, metric.components_, rtol=1e-5, atol=1e-6 * abs(C).max())
    again = BoostMetric(metric.v_, loss=loss, tol=1e-6).fit(Z, triplets=metric.triplets_)
    assert proof.dual <= again.certificate_.primal * (1 + 1e-6)
    again.components_ = W  # the stored metric, over the mapped rows
    assert proof.primal == pytest.approx(recomputed_objective(again, Z), rel=1e-6)
    if loss == "hinge":
        assert abs((W * W).sum() - 1) <= proof.violation + 1e-9


@pytest.mark.costly
@pytest.mark.parametrize("v", ["scale", 0.005, 0.5])
def test_hinge_programs_end_soon(v):
    rng = np.random.default_rng(0)
    metric = BoostMetric(v, loss="hinge").fit(rng.normal(size=(30, 7)), np.arange(30) % 2)
    assert metric.certificate_.status == "converged" and metric.n_iter_ < 150


def test_warns_with_gap_and_remedy_when_stopped_by_the_iteration_count(iris):
    with pytest.warns(
        ConvergenceWarning, match=r"'max_iter' after 3 iterations.*raise v, max_iter or tol"
    ):
        BoostMetric(max_iter=3).fit(*iris)


@pytest.mark.parametrize(
    "parameters, data, message",
    [
        ({"v": 1e-7, "loss": "hinge"}, "labels", "v=1e-07 is below 1/m"),
        ({"v": "auto"}, "labels", "'v' parameter"),
        ({"n_passes": 2}, "triplets", "n_passes=2 finds new triplets from labels; give y"),
        ({"v": 0.0}, "labels", "'v' parameter"),
        ({"loss": "square"}, "labels", "'loss' parameter"),
        ({"n_components": 9}, "labels", "n_components=9 is more than the 4 features"),
    ],
)
def test_errors_name_argument_value_and_remedy(iris, parameters, data, message):
    X, y = iris
    with pytest.raises(ValueError, match=message):
        BoostMetric(**parameters).fit(
            X, **({"y": y} if data == "labels" else {"triplets": [[0, 1, 60]]})
        )


def test_pickle_keeps_the_stages(iris):
    metric = BoostMetric(max_iter=4).fit(*iris)
    again = pickle.loads(pickle.dumps(metric))
    assert len(list(again.staged_metrics())) == 4
    assert_allclose(again.transform(iris[0]), metric.transform(iris[0]))
