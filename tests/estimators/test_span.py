"""Fits in the span of the rows, judged by the same programs over all features."""

import numpy as np
import pytest
from cases import pairs_of
from instances import random_triplets
from numpy.testing import assert_allclose
from oracles import soft_margin_optimum

from benchmarks.scale import wide
from conemetric import BoostMetric, DMLEig, FrobMetric, LMNNEig, NuMax
from conemetric.core.arrays import to_numpy
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.losses import Logistic, LogSumExp
from conemetric.engine.operators import from_pairs, from_triplets
from conemetric.engine.operators.whitening import similar_scatter
from conemetric.engine.proximal_point import ProximalPoint
from conemetric.papers.boostmetric.column_generation import ColumnGeneration
from conemetric.papers.boostmetric.price_search import PriceSearch
from conemetric.papers.boostmetric.program import TraceProgram
from conemetric.papers.boostmetric.soft_margin import SoftMarginProgram
from conemetric.papers.eigenvalue.program import DMLEigProgram, LMNNEigProgram
from conemetric.papers.numax.program import Multipliers, SecantIsometryProgram
from conemetric.papers.numax.secant_generation import SecantGeneration
from conemetric.papers.numax.secants import AllSecants

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.*pairs of rows coincide",
    "ignore:.*fewer than n_targets",
)
RIDGE = 1e-3  # of a singular scatter: its inverse amplifies rounding


RATIOS = (0.5, 1, 1.5, 4, 10)  # features per row
SHAPES = [(ratio, deficient) for ratio in RATIOS for deficient in (False, True)]


def instance(ratio=10, deficient=False, seed=0):
    """X with duplicates, constant and collinear features; triplets."""
    rng = np.random.default_rng([seed, SHAPES.index((ratio, deficient))])
    n = int(rng.integers(6, 9))
    D = int(n * ratio)
    X = rng.normal(size=(n, D)) * rng.uniform(0.3, 2.0, D) + 5
    X[:, D // 2] = 1.0
    X[:, -1] = 2 * X[:, 0]
    if deficient:
        X[:, 1 : D // 2] = X[:, :1] * rng.normal(size=D // 2 - 1)
    X[1] = X[2]
    return X, random_triplets(rng, n, 3 * n)


def whitened(X, similar):
    R = np.linalg.cholesky(similar_scatter(to_numpy(X).astype(float), similar, RIDGE))
    return np.linalg.solve(R, to_numpy(X).astype(float).T).T, R


# Each returns the fitted metric, its program over all features, the factor and the
# multipliers there, and the solver that solves it directly.


def frobenius(X, T):
    metric = FrobMetric(C=5.0).fit(X, triplets=T)
    return metric, FrobeniusProgram(from_triplets(X, T), 5.0), None, DualQuasiNewton()


def lmnn_eig(X, T):
    metric = LMNNEig(ridge=RIDGE).fit(X, triplets=T)
    Z, R = whitened(X, np.unique(T[:, :2], axis=0))
    return metric, LMNNEigProgram(from_triplets(Z, T), 0.5), R.T, ProximalPoint()


def dml_eig(X, T):
    similar, other = T[:, :2], T[:, [0, 2]]
    other = other[to_numpy((X[other[:, 0]] != X[other[:, 1]]).any(1))]
    pairs = np.vstack([similar, other])
    metric = DMLEig(ridge=RIDGE).fit(X, pairs=pairs, similar=np.arange(len(pairs)) < len(similar))
    Z, R = whitened(X, similar)
    return metric, DMLEigProgram(from_pairs(Z, other)), R.T, ProximalPoint()


def boosted(loss, penalty):
    def fit(X, T):
        metric = BoostMetric(v=10.0, loss=loss, solver="corrective").fit(X, triplets=T)
        return (
            metric,
            TraceProgram(from_triplets(X, T), 10.0, penalty),
            None,
            ColumnGeneration(corrective=True),
        )

    return fit


def boosted_hinge(X, T):
    """Of triplets that the Euclidean metric meets: else trace outside the span would be better."""
    i, j, k = T.T
    T = T[((X[i] - X[j]) ** 2).sum(1) < ((X[i] - X[k]) ** 2).sum(1)]
    metric = BoostMetric(v=0.3, loss="hinge").fit(X, triplets=T)
    return (
        metric,
        SoftMarginProgram(from_triplets(X, T), 0.3),
        None,
        PriceSearch(),
    )


def near_isometry(X, T):
    metric = NuMax(delta=0.3).fit(X)
    return metric, SecantIsometryProgram(AllSecants(X), 0.3), None, SecantGeneration()


def identity_prior(X, T):
    metric = FrobMetric(C=5.0, prior="identity").fit(X, triplets=T)
    far = to_numpy(X[T[:, 0]] - X[T[:, 2]])
    prior = np.eye(X.shape[1]) / (far**2).sum(1).mean()
    program = FrobeniusProgram(from_triplets(X, T), 5.0, "hinge", prior)
    return metric, program, None, DualQuasiNewton()


FITS = {
    "frobmetric": frobenius,
    "identity": identity_prior,
    "lmnn_eig": lmnn_eig,
    "dml_eig": dml_eig,
    "exponential": boosted("exponential", LogSumExp()),
    "logistic": boosted("logistic", Logistic()),
    "hinge": boosted_hinge,
    "numax": near_isometry,
}


def multipliers(metric, n):
    if isinstance(metric, NuMax):
        pairs = metric.active_pairs_
        return Multipliers(pairs[:, 0] * n + pairs[:, 1], metric.multipliers_)
    return getattr(metric, "multipliers_", None)


@pytest.mark.cases(6)
@pairs_of(name=FITS, ratio=RATIOS, deficient=(False, True))
def test_certificate_and_optimum_are_those_over_all_features(name, ratio, deficient, seed):
    X, T = instance(ratio, deficient, seed)
    metric, program, transpose, solver = FITS[name](X, T)
    assert_certified_in_all_features(name, metric, program, transpose, len(X))
    found = solver.solve(program)
    direct, certificate = found.certificate, metric.certificate_
    duals = certificate.dual, direct.dual
    if name == "numax":  # what violates bounds is feasible for wider ones, of a lower optimum
        points = (multipliers(metric, len(X)), direct), (found.dual_point, certificate)
        duals = [
            SecantIsometryProgram(program.secants, program.delta * (1 + other.violation))
            .certify(metric.components_.T, point)
            .dual
            for point, other in points
        ]
    # intervals that hold the same optimum overlap
    slack = 1e-9 * abs(direct.primal) + 1e-12
    assert duals[0] <= direct.primal + slack
    assert duals[1] <= certificate.primal + slack


def assert_certified_in_all_features(name, metric, program, transpose, n):
    L = metric.components_.T
    if name == "hinge":  # its multipliers are not kept
        L = program.scaled(L)
        assert program.value(program.operator.forward_factor(L)) == pytest.approx(
            metric.objective_, rel=1e-8
        )
        return
    L = L if transpose is None else transpose @ L
    bounds = program.certify(L, multipliers(metric, n))
    assert bounds.primal == pytest.approx(metric.certificate_.primal, rel=1e-8)
    if name == "logistic":  # its multipliers are not kept; those of the metric are no better
        assert bounds.dual <= metric.certificate_.dual + 1e-8 * abs(bounds.dual)
        return
    assert bounds.dual == pytest.approx(metric.certificate_.dual, rel=1e-8)
    assert bounds.violation == pytest.approx(metric.certificate_.violation, abs=1e-8)


@pytest.mark.parametrize(
    "name", ["frobmetric", "identity", "dml_eig", "lmnn_eig", "logistic", "numax"]
)
@pytest.mark.costly
def test_every_library_and_precision(name, asarray, dtype):
    X, T = instance()
    metric = FITS[name](X, T)[0]
    here = FITS[name](asarray(X.astype(dtype)), T)[0]
    assert to_numpy(here.components_).dtype == dtype
    assert here.objective_ == pytest.approx(metric.objective_, rel=2e-3)


@pytest.mark.cases(6)
@pytest.mark.parametrize("seed", [1, 2, 3])  # as many features as rows, 2 and 5 times as many
@pytest.mark.parametrize("name", ["FrobMetric", "FrobMetric, identity", "FrobMetric, logistic"])
def test_the_same_as_without_the_span(name, seed):
    """A slice of ``python -m benchmarks wide --equal 50``."""
    X, y = wide.instance(seed)
    objective, bound, neighbours, _ = wide.differences(wide.EXACT[name], X, y)
    assert objective < 1e-8
    assert bound < 1e-8
    assert neighbours < 1e-8


def test_outside_the_span_the_metric_is_the_identity():
    X, T = instance()
    metric = FrobMetric(prior="identity").fit(X, triplets=T)
    away = np.linalg.qr((X - X.mean(0)).T, mode="complete")[0][:, len(X) :]
    scale = ((X[T[:, 0]] - X[T[:, 2]]) ** 2).sum(1).mean()
    assert_allclose(metric.get_mahalanobis_matrix() @ away, away / scale, atol=1e-12)
    norms = np.linalg.norm(metric.components_, axis=1)
    assert (np.diff(norms) <= 1e-12).all()


def test_stages_are_metrics_of_the_features():
    X, T = instance()
    metric = BoostMetric(v=0.1, max_iter=4).fit(X, triplets=T)
    *_, last = metric.staged_metrics()
    assert_allclose(last.T @ last, metric.get_mahalanobis_matrix(), atol=1e-9)


def test_the_hinge_loss_finds_the_metric_that_harms_least():
    """Each triplet with its opposite: no metric has a positive margin, nor leaves the rows' span."""
    X, T = instance()
    T = np.vstack([T, T[:, [0, 2, 1]]])
    metric = BoostMetric(v=1.0, loss="hinge", tol=1e-4).fit(X, triplets=T)
    assert metric.certificate_.status == "converged"
    optimum = soft_margin_optimum(X, T, 1.0)
    assert optimum > 0 and metric.objective_ == pytest.approx(optimum, rel=2e-4)
    assert (metric.components_**2).sum() == pytest.approx(1)
