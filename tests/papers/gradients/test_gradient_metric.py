"""GradientMetric: gradients beside finite differences, rounds, rows, precisions, conventions."""

import numpy as np
import pytest
from metamorphic import quietly
from numpy.testing import assert_allclose

from conemetric import GradientMetric, load_metric, save_metric
from conemetric.core.arrays import to_numpy
from conemetric.engine.distance_kernels import KernelSetting
from conemetric.engine.kernel_ridge import fit_exactly
from conemetric.papers.gradients import gradient_metric
from conemetric.papers.gradients.gradient_metric import gradient_rounds

every_kernel = pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "city block"])


def rows(seed, n=40, D=3, k=2):
    """Rows of which the last column does not matter, targets and weights."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, D))
    Y = np.sin(2 * Z[:, :1]) + rng.normal(size=(1, k)) * Z[:, 1:2]
    return Z, Y, rng.uniform(0.5, 2, n)


def mapped(learned, Z):
    """The rows where the distance is the Euclidean (or city block) one."""
    return Z @ learned.L if learned.L.ndim == 2 else Z * learned.L


@every_kernel
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("n_gradients", [None, 12])
def test_a_round_is_the_mean_outer_product_of_finite_differences(
    kernel, diagonal, n_gradients, seed
):
    Z, Y, weights = rows(seed)
    options = {"n_rounds": 2, "width": 0.7, "diagonal": diagonal, "n_gradients": n_gradients}
    first, second = gradient_rounds(Z, Y, weights, kernel, **options)
    setting = KernelSetting(kernel, 0.7, 0.05)
    model, certificate = fit_exactly(setting, mapped(first, Z), Y, weights)
    step = 1e-4 * np.eye(Z.shape[1])
    gradients = np.stack(
        [(model(mapped(first, Z + each)) - model(mapped(first, Z - each))) / 2e-4 for each in step],
        axis=1,
    )  # (rows, columns, targets); a row is at the kink of its own kernel: 0 on both sides
    shares, gradients = weights[:n_gradients], gradients[:n_gradients]
    expected = np.einsum("i,iat,ibt->ab", shares / shares.sum(), gradients, gradients)
    if diagonal or kernel == "city block":
        expected = np.diag(expected) ** 0.5
        assert_allclose(second.L, expected / expected.max(), rtol=1e-3, atol=1e-5)
    else:
        assert_allclose(second.L @ second.L.T, expected / np.trace(expected), rtol=1e-3, atol=1e-5)
    assert second.certificate.primal == pytest.approx(certificate.primal)
    assert second.certificate.status == "converged"


def test_blocks_of_columns_share_the_mean_square_of_their_gradients(seed):
    Z, Y, weights = rows(seed, D=5)
    (each,) = gradient_rounds(Z, Y, weights, "city block", n_rounds=1)
    (shared,) = gradient_rounds(
        Z, Y, weights, "city block", n_rounds=1, diagonal=np.array([7, 0, 7, 3, 0])
    )
    squares = each.L**2
    means = np.array([squares[[0, 2]].mean(), squares[[1, 4]].mean(), squares[3]])[[0, 1, 0, 2, 1]]
    assert_allclose(shared.L, (means / means.max()) ** 0.5)
    metric = GradientMetric("city block", diagonal=[7, 0, 7, 3, 0], n_rounds=1)
    metric.fit(Z, Y[:, 0], target="continuous")
    weights = np.diag(metric.components_)
    assert weights[0] == weights[2] and weights[1] == weights[4]


@every_kernel
def test_more_columns_than_rows_learn_in_the_span_of_the_rows(kernel, seed):
    Z, Y, weights = rows(seed, n=12)
    wide = np.linalg.qr(np.random.default_rng(seed).normal(size=(30, 3)))[0].T
    if kernel == "city block":
        wide = np.eye(3, 30)
    narrow, broad = (list(gradient_rounds(A, Y, weights, kernel))[-1] for A in (Z, Z @ wide))
    one, other = mapped(narrow, Z), mapped(broad, Z @ wide)
    assert_allclose(one @ one.T, other @ other.T, atol=1e-9)


@every_kernel
def test_columns_that_do_not_matter_lose_their_weight(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    metric = GradientMetric(kernel, diagonal=True).fit(X, X[:, 0] * X[:, 1])
    squares = np.diag(metric.get_mahalanobis_matrix())
    assert squares[:2].min() > 5 * squares[2:].max()


@every_kernel
def test_libraries_and_precisions_agree(kernel, asarray, dtype, seed):
    Z, _, _ = rows(seed)
    y = Z[:, 0] > 0
    expected = GradientMetric(kernel).fit(Z, y).get_mahalanobis_matrix()
    metric = GradientMetric(kernel).fit(asarray(Z.astype(dtype)), y)
    assert to_numpy(metric.components_).dtype == dtype
    tolerance = 1e-8 if dtype == np.float64 else 1e-4
    assert_allclose(to_numpy(metric.get_mahalanobis_matrix()), expected, atol=tolerance)
    assert type(metric.transform(asarray(Z.astype(dtype)))) is type(asarray(Z))


def test_two_classes_are_learned_from_one_indicator_as_from_two(seed):
    Z, _, _ = rows(seed)
    y = (Z[:, 0] * Z[:, 1] > 0).astype(int)
    both = list(gradient_rounds(Z, np.eye(2)[y], np.ones(len(Z))))[-1]
    metric = GradientMetric().fit(Z, np.array(["no", "yes"])[y])
    assert_allclose(metric.get_mahalanobis_matrix(), both.L @ both.L.T, atol=1e-10)


def test_units_of_numbers_do_not_matter_and_rows_without_weight_or_label_are_left_out(seed):
    Z, Y, weights = rows(seed)
    one, scaled = (GradientMetric().fit(Z, c * Y[:, 0] + c) for c in (1.0, 1e9))
    assert_allclose(one.get_mahalanobis_matrix(), scaled.get_mahalanobis_matrix(), atol=1e-7)
    weights[:5] = 0
    y = (Z[:, 0] > 0) + (Z[:, 1] > 0).astype(int)
    weighted = GradientMetric().fit(Z, y, sample_weight=weights)
    fewer = GradientMetric().fit(Z[5:], y[5:], sample_weight=3 * weights[5:])
    assert_allclose(weighted.components_, fewer.components_, atol=1e-8)
    labels = np.where(weights == 0, -1, y)
    unlabelled = quietly(GradientMetric().fit, Z, labels)
    alone = GradientMetric().fit(Z[5:], y[5:])
    assert_allclose(unlabelled.components_, alone.components_, atol=1e-8)


@pytest.mark.parametrize("target", ["classes", "continuous"])
def test_what_y_holds_in_rows_without_weight_does_not_matter(target, seed):
    Z, Y, weights = rows(seed)
    weights[:5] = 0
    y = (Z[:, 0] > 0).astype(int) if target == "classes" else Y[:, 0]
    other = y.copy()
    other[:5] = 7 if target == "classes" else 1e17
    one, two = (
        GradientMetric().fit(Z, each, sample_weight=weights, target=target) for each in (y, other)
    )
    assert_allclose(one.components_, two.components_, rtol=0, atol=0)
    assert one.objective_ == two.objective_


def test_of_many_rows_a_sample_is_drawn_that_does_not_depend_on_their_order(monkeypatch, seed):
    monkeypatch.setattr(gradient_metric, "MAX_ROWS", 30)
    Z, _, _ = rows(seed, n=90)
    y = (Z[:, 0] > 1).astype(int)
    order = np.random.default_rng(seed).permutation(90)
    one, other, third = (
        GradientMetric(random_state=state).fit(*data).get_mahalanobis_matrix()
        for state, data in ((0, (Z, y)), (0, (Z[order], y[order])), (1, (Z, y)))
    )
    assert_allclose(one, other, atol=1e-9)
    assert abs(one - third).max() > 1e-6


def test_signs_are_multiplied_in_blocks(monkeypatch, seed):
    Z, Y, weights = rows(seed)
    whole = list(gradient_rounds(Z, Y, weights, "city block"))[-1].L
    monkeypatch.setattr(gradient_metric, "BLOCK", 3 * len(Z))
    assert_allclose(list(gradient_rounds(Z, Y, weights, "city block"))[-1].L, whole)


@every_kernel
def test_a_metric_file_holds_it_with_its_certificate(kernel, tmp_path):
    Z, Y, _ = rows(0)
    metric = GradientMetric(kernel).fit(Z, Y[:, 0])
    save_metric(tmp_path / "metric", metric)
    again = load_metric(tmp_path / "metric")
    assert_allclose(again.transform(Z), metric.transform(Z))
    assert again.method == "GradientMetric"
    assert again.certificate.primal == metric.certificate_.primal == metric.objective_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "linear"}, "kernel"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"ridge": 0.0}, "ridge"),
        ({"width": -1}, "width"),
        ({"diagonal": [0, 1]}, "number of the block of each of the 3 columns"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    Z, Y, _ = rows(0)
    with pytest.raises(ValueError, match=message):
        GradientMetric(**parameters).fit(Z, Y[:, 0])


def test_what_cannot_be_learned_from_is_refused():
    Z, Y, _ = rows(0)
    with pytest.raises(ValueError, match="y is the same in all 40 rows"):
        GradientMetric().fit(Z, np.full(40, 0.5))
    with pytest.raises(ValueError, match="1 class"):
        GradientMetric().fit(Z, np.zeros(40, int))
    with pytest.raises(ValueError, match="X is the same in all 40 rows"):
        GradientMetric().fit(np.ones((40, 2)), Y[:, 0])
    with pytest.raises(ValueError, match="sample_weight is zero"):
        GradientMetric().fit(Z, Y[:, 0], sample_weight=np.zeros(40))
    with pytest.raises(ValueError, match="y is None"):
        GradientMetric().fit(Z, None)
