"""Boosting by column generation: optima against a conic solver, the paper's theorem,
the root finder, bounded columns.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import KINDS, triplet_instance
from numpy.testing import assert_allclose, assert_array_equal
from oracles import trace_optimum

from conemetric.core.arrays import to_numpy
from conemetric.engine.certificate import Status
from conemetric.engine.losses import Logistic, LogSumExp
from conemetric.engine.operators import from_triplets
from conemetric.papers.boostmetric.column_generation import ColumnGeneration, positive_root
from conemetric.papers.boostmetric.ensemble import Ensemble, LearnerMargins
from conemetric.papers.boostmetric.program import TraceProgram

ExponentialTrace = partial(TraceProgram, loss=LogSumExp())
LogisticTrace = partial(TraceProgram, loss=Logistic())
NAMES = {ExponentialTrace: "exponential", LogisticTrace: "logistic"}
TASKS = [(ExponentialTrace, 1e-2), (LogisticTrace, 1.0)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# where the exponential program has a minimum
BOUNDED = {
    "labels": (1, 5, 6),
    "random": (6,),
    "duplicates": (0, 2, 5, 6),
    "collinear": (1, 3, 4),
    "contradictory": (0, 1, 3, 5),
}


@pytest.mark.parametrize(
    "loss, v, kind, seed",
    [(ExponentialTrace, 1e-2, kind, seed) for kind in BOUNDED for seed in BOUNDED[kind]]
    + [(LogisticTrace, 1.0, kind, seed) for kind in KINDS for seed in range(2)],
)
@pytest.mark.costly
def test_optimum(loss, v, kind, seed):
    """Totally corrective to 1e-5, stage-wise to 1e-3; the certificate brackets the
    optimum as its problem says.
    """
    X, T = triplet_instance(kind, seed)
    optimum, of_trace = trace_optimum(X, T, NAMES[loss], v)
    for corrective, tol in ((True, 1e-5), (False, 1e-3)):
        result = ColumnGeneration(tol=tol, max_iter=3000, corrective=corrective).solve(
            loss(from_triplets(X, T), v)
        )
        certificate, trace = result.certificate, (result.primal_point**2).sum()
        error = certificate.primal - optimum
        assert certificate.status is Status.CONVERGED
        assert -1e-6 * abs(optimum) <= error <= tol * abs(optimum)
        assert error <= certificate.gap + max(
            0, of_trace - trace
        ) * certificate.violation * v + 1e-6 * abs(optimum)


@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 30),
    task=st.sampled_from(TASKS),
    small=st.booleans(),
)
@settings(max_examples=10, deadline=None)
def test_every_corrective_step_lowers_the_objective(kind, seed, task, small):
    """The paper's Theorem 3.1, whatever v is; and stage-wise the same."""
    loss, v = task
    X, T = triplet_instance(kind, seed)
    problem = loss(from_triplets(X, T), 1e-7 if small else v)
    for corrective in (True, False):
        primal = (
            ColumnGeneration(max_iter=15, corrective=corrective).solve(problem).history["primal"]
        )
        assert (np.diff(primal) <= 1e-12 * abs(primal[:-1])).all()


@pytest.mark.parametrize(
    ("kind", "seed"), [("contradictory", 1), ("contradictory", 5), ("random", 6)]
)
def test_a_small_v_has_no_say_in_the_stage_wise_metric(kind, seed):
    """The paper's table 2: from 1e-8 to 1e-5 the same path, and where it ends weights
    are corrected no further than tol asks.
    """
    X, T = triplet_instance(kind, seed)
    first, second = (
        ColumnGeneration(max_iter=500).solve(ExponentialTrace(from_triplets(X, T), v)).primal_point
        for v in (1e-8, 1e-5)
    )
    first, second = (L @ L.T / np.sum(L * L) for L in (first, second))
    assert_allclose(first, second, atol=2e-3 * np.linalg.norm(first))


@pytest.mark.parametrize("loss, v", TASKS)
@pytest.mark.costly
def test_libraries_and_precisions_agree(loss, v, asarray, dtype):
    X, T = triplet_instance("labels", 1)
    exact = (
        ColumnGeneration(tol=1e-4, corrective=True)
        .solve(loss(from_triplets(X, T), v))
        .certificate.primal
    )
    problem, tol = (
        loss(from_triplets(asarray(X.astype(dtype)), asarray(T)), v),
        1e-3 if dtype == np.float64 else 2e-2,
    )
    for corrective in (True, False):
        result = ColumnGeneration(tol=tol, corrective=corrective).solve(problem)
        assert result.primal_point.dtype == asarray(np.zeros(1, dtype)).dtype
        # where rounding ends a solve in single precision depends on the processor
        assert result.status is Status.CONVERGED or dtype == np.float32
        assert_allclose(result.certificate.primal, exact, rtol=tol)


@given(st.floats(1e-6, 1e6), st.floats(0.1, 5.0))
@settings(max_examples=60, deadline=None)
def test_root_finder(root, power):
    def increasing(w):
        return (w / root) ** power - 1, power * (w / root) ** power / w if w > 0 else 1 / root

    found, n_evaluations = positive_root(increasing, limit=1e9, tol=1e-6)
    assert_allclose(increasing(found)[0], 0, atol=1e-6)
    assert n_evaluations <= 60


def test_root_finder_ends_at_the_limit_and_at_zero():
    assert positive_root(lambda w: (-1.0, 0.1), limit=7.0)[0] == 7.0
    assert positive_root(lambda w: (0.5 + w, 1.0), limit=7.0) == (0.0, 1)


def test_stages_keep_what_each_iteration_had():
    X, T = triplet_instance("labels", 1)
    problem = ExponentialTrace(from_triplets(X, T), 1e-2)
    for corrective in (True, False):
        result = ColumnGeneration(max_iter=30, corrective=corrective).solve(problem)
        ensemble = result.state
        assert ensemble.n_stages == result.n_iter > 15
        values = [
            problem.certify(ensemble.factor(stage)).primal for stage in range(ensemble.n_stages + 1)
        ]
        assert_allclose(values, result.history["primal"], rtol=1e-9)


def test_goes_on_from_an_ensemble():
    X, T = triplet_instance("labels", 1)
    problem = LogisticTrace(from_triplets(X, T), 1e-7)
    whole = ColumnGeneration(max_iter=20).solve(problem).state
    first = ColumnGeneration(max_iter=12).solve(problem).state
    parts = ColumnGeneration(max_iter=8).solve(problem, start=first).state
    assert first.n_stages == 12 and parts.n_stages == 20
    assert_allclose(parts.factor() @ parts.factor().T, whole.factor() @ whole.factor().T, rtol=1e-6)


def test_too_many_learners_become_eigenvectors_of_the_same_metric(asarray):
    X, T = triplet_instance("labels", 1)
    operator = from_triplets(asarray(X), asarray(T))
    ensemble, rng = Ensemble(operator), np.random.default_rng(0)
    for _ in range(40):
        z = rng.normal(size=X.shape[1])
        ensemble.extend(asarray(z / np.linalg.norm(z)), rng.random())
    rows = LearnerMargins(operator, ensemble)
    assert len(rows.numbers) == X.shape[1] < 32 <= rows.limit
    margins = np.array(rows.weights) @ to_numpy(rows._rows[: len(rows.weights)])
    assert_allclose(margins, to_numpy(operator.forward_factor(ensemble.factor())), rtol=1e-8)


def test_root_is_found_where_the_curvature_overflows():
    root, _ = positive_root(lambda w: (w - 3.0, np.inf), limit=100.0, tol=1e-9)
    assert root == pytest.approx(3.0)


@pytest.mark.parametrize("corrective", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_an_ensemble_comes_back_from_its_arrays(corrective, seed):
    rng = np.random.default_rng(seed)
    operator = from_triplets(rng.normal(size=(6, 3)), [[0, 1, 2], [3, 4, 5]])
    ensemble = Ensemble(operator)
    for stage in range(20):
        if corrective and stage % 3 == 2:
            used = rng.permutation(stage)[: stage // 2].tolist()
            ensemble.use(used, rng.random(len(used)).tolist())
        else:
            ensemble.extend(rng.normal(size=3), rng.random())
        for _ in range(stage - ensemble._n_learners + 1):
            ensemble.learn(rng.normal(size=3))
    again = Ensemble.from_arrays(operator, ensemble.as_arrays())
    for each in (ensemble, again):  # both go on alike
        each.extend(np.ones(3), 0.5)
    assert again.n_stages == ensemble.n_stages == 21
    assert (again.numbers, again.weights) == (ensemble.numbers, ensemble.weights)
    for stage in range(22):
        assert_array_equal(again.factor(stage), ensemble.factor(stage))


@pytest.mark.parametrize(
    "name, wrong",
    [
        ("numbers", [0, 1, 3]),
        ("numbers", [0, 1]),
        ("begins", [0, 0, 0, -1]),
        ("counts", [0, 1, 2, 4]),
        ("counts", []),
    ],
)
def test_arrays_that_are_no_ensemble_are_refused(name, wrong):
    operator = from_triplets(np.eye(3), [[0, 1, 2]])
    ensemble = Ensemble(operator)
    for column in np.eye(3):
        ensemble.extend(column, 1.0)
    arrays = {**ensemble.as_arrays(), name: np.array(wrong, np.int64)}
    with pytest.raises(ValueError, match="learners of the checkpoint do not fit"):
        Ensemble.from_arrays(operator, arrays)
