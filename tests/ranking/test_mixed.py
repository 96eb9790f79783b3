"""The program over a sum of spaces, a matrix and weights that are not negative: against a
conic solver, for every W and for the cone, and its multipliers.
"""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from conemetric.core.arrays import to_numpy
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets
from conemetric.ranking.bilinear_operator import from_comparisons
from conemetric.ranking.bilinear_program import BilinearProgram
from conemetric.ranking.column_operator import WithColumns, concatenated, partitioned

D = 3
KINDS = ("plain", "useless column", "opposed column", "far prior", "one dominates")


def instance(kind, seed):
    """Queries, documents, comparisons, columns (m, c), weights, C and the prior (W0, v0)."""
    rng = np.random.default_rng(seed)
    Q, X = rng.normal(size=(5, D)), rng.normal(size=(12, D))
    comparisons = np.column_stack([rng.integers(5, size=14), rng.integers(12, size=(14, 2))])
    comparisons = comparisons[comparisons[:, 1] != comparisons[:, 2]]
    columns = rng.normal(size=(len(comparisons), rng.integers(1, 4)))
    v0 = rng.uniform(0, 1, columns.shape[1])
    if kind == "useless column":
        columns[:, 0] = 0
    if kind == "opposed column":  # its weight would be negative
        columns[:, 0] = -abs(columns[:, 0])
        v0[0] = 0.05
    if kind == "one dominates":
        columns[:, 0] *= 100
    W0 = rng.normal(size=(D, D)) * (30 if kind == "far prior" else 0.3)
    weights = rng.uniform(0.2, 2, len(comparisons))
    return Q, X, comparisons, columns, weights, 10 ** rng.uniform(-1, 2), W0, v0


def conic_optimum(rows, columns, weights, C, M0, v0, cone):
    """min 1/2 ||M - M0||^2 + 1/2 ||v - v0||^2 + C mean of w max(0, 1 - <A_r, M> - S_r v)."""
    M, v = cp.Variable((D, D), PSD=True) if cone else cp.Variable((D, D)), cp.Variable(len(v0))
    margins = rows.reshape(len(rows), -1) @ cp.vec(M, order="C") + columns @ v
    loss = (C * weights / weights.sum()) @ cp.pos(1 - margins)
    objective = 0.5 * cp.sum_squares(M - M0) + 0.5 * cp.sum_squares(v - v0) + loss
    problem = cp.Problem(cp.Minimize(objective), [v >= 0])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value, problem.constraints[0].dual_value


def solved(kind, seed, cone, asarray=np.asarray, dtype=np.float64):
    """A `SolveResult`, its program, and the conic solver's optimum and multipliers of v >= 0."""
    Q, X, comparisons, columns, weights, C, W0, v0 = instance(kind, seed)
    Q, X, columns, weights = (part.astype(dtype).astype(float) for part in (Q, X, columns, weights))
    i, j, k = comparisons.T
    points = [asarray(part.astype(dtype)) for part in (Q, X)]
    if cone:
        W0 = W0 @ W0.T
        both = np.vstack([Q, X])
        operator = from_triplets(asarray(both.astype(dtype)), comparisons + np.array([0, 5, 5]))
        far, near = Q[i] - X[k], Q[i] - X[j]
        rows = np.einsum("ri,rj->rij", far, far) - np.einsum("ri,rj->rij", near, near)
    else:
        operator = from_comparisons(*points, comparisons)
        rows = np.einsum("ri,rj->rij", Q[i], X[j] - X[k])
    operator = WithColumns(operator, columns)
    W0, v0 = (part.astype(dtype).astype(float) for part in (W0, v0))
    kind = FrobeniusProgram if cone else BilinearProgram
    program = kind(operator, C, prior=concatenated(W0, v0), weights=weights)
    tol = 1e-7 if dtype == np.float64 else 1e-3
    result = DualQuasiNewton(tol=tol, max_iter=5000).solve(program, retried=True)
    return result, program, conic_optimum(rows, columns, weights, C, W0, v0, cone)


@pytest.mark.cases(6)
@pytest.mark.parametrize("cone", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_reaches_the_optimum_of_a_conic_solver(kind, cone, seed, asarray, dtype):
    result, _, (optimum, _) = solved(kind, seed, cone, asarray, dtype)
    slack = 1e-5 if dtype == np.float64 else 2e-3
    assert result.certificate.dual <= optimum * (1 + 1e-6) + 1e-9
    assert result.certificate.primal >= optimum * (1 - 1e-6) - 1e-9
    assert result.certificate.primal == pytest.approx(optimum, rel=slack, abs=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_multipliers_of_the_signs_are_those_of_a_conic_solver(kind, seed):
    result, program, (_, multipliers) = solved(kind, seed, cone=False)
    point = program.evaluate(result.dual_point)
    _, v = partitioned(point.primal_point, program.operator.n_columns)
    assert (v >= 0).all()
    assert_allclose(point.cut * v, 0, atol=1e-9)
    assert_allclose(point.cut, multipliers, atol=2e-3 * (1 + abs(multipliers).max()))


def test_an_opposed_column_gets_weight_zero_and_a_multiplier():
    cuts = []
    for seed in range(8):
        result, program, _ = solved("opposed column", seed, cone=False)
        cuts.append(program.evaluate(result.dual_point).cut[0])
    assert max(cuts) > 0


@pytest.mark.parametrize("cone", [False, True])
def test_forward_and_adjoint_agree(cone, seed, asarray, dtype):
    _, program, _ = solved("plain", seed, cone, asarray, dtype)
    operator, rng = program.operator, np.random.default_rng(seed)
    block = rng.normal(size=(D, D))
    M = operator.constraint_vector(
        concatenated(block + block.T, rng.normal(size=operator.n_columns))
    )
    u = operator.constraint_vector(rng.normal(size=operator.n_constraints))
    left, right = float((operator.forward(M) * u).sum()), float((M * operator.adjoint(u)).sum())
    assert left == pytest.approx(right, rel=1e-4 if dtype == np.float32 else 1e-10, abs=1e-4)
    index = np.arange(0, operator.n_constraints, 2)
    part = operator.subset(index)
    assert_allclose(
        to_numpy(part.forward(M)), to_numpy(operator.forward(M))[index], rtol=1e-3, atol=1e-4
    )
    again = operator.astype(operator.xp.float64)
    double = again.adjoint(again.constraint_vector(to_numpy(u)))
    assert_allclose(to_numpy(double), to_numpy(operator.adjoint(u)), atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_restricted_program_bounds_the_whole(seed):
    """With some multipliers fixed, D = D_O + c and P >= P_O + c, weights at zero or not."""
    result, program, _ = solved("opposed column", seed, cone=False)
    u = program.project(result.dual_point * 0.9)
    index = np.arange(0, program.operator.n_constraints, 2)
    part = program.restricted(index, u)
    assert part.evaluate(u[index]).dual == pytest.approx(program.evaluate(u).dual, rel=1e-9)
    point = result.primal_point
    terms = [
        p.operator.space.totals(p.primal_terms(p.margins_of(point)))[0] for p in (part, program)
    ]
    values = [
        p.primal_value(t, None, point)[0] for p, t in zip((part, program), terms, strict=True)
    ]
    assert values[0] <= values[1] * (1 + 1e-9)
