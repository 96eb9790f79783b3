"""ADMM and column generation against a conic solver, their certificates, and what they
do at the edges.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import near_isometry_optimum
from sklearn.datasets import load_iris

from conemetric import NuMax
from conemetric.core.arrays import to_numpy
from conemetric.engine.certificate import Status
from conemetric.papers.numax import admm, secant_generation
from conemetric.papers.numax.admm import ADMM, CG_TOL
from conemetric.papers.numax.interior_point import IsometryPath
from conemetric.papers.numax.program import Multipliers, SecantIsometryProgram
from conemetric.papers.numax.secant_generation import SecantGeneration, _cut
from conemetric.papers.numax.secants import AllSecants, ListedSecants

KINDS = ("generic", "scaled", "duplicates", "collinear", "wide")


def instance(kind, with_classes, seed=0):
    """(X, y or None, delta): D from 2 to 7."""
    rng = np.random.default_rng(2 * (len(KINDS) * seed + KINDS.index(kind)) + with_classes)
    D, n = int(rng.integers(2, 8)), int(rng.integers(8, 16))
    if kind == "wide":
        D, n = 7, 4
    X = rng.normal(size=(n, D))
    if kind == "scaled":
        X = 1e3 * X * rng.uniform(0.2, 2.0, D) + 50
    if kind == "duplicates":
        X[1::4] = X[: len(X[1::4])]
    if kind == "collinear":
        X[:, -1] = X[:, 0] * 2
    y = rng.integers(0, 2, n)
    y[:2] = 0, 1
    return X, y if with_classes else None, float(rng.uniform(0.05, 0.6))


def every_pair(secants):
    return secants.sample(10**9, np.random.default_rng(0))


@pytest.mark.parametrize("with_classes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_reaches_the_conic_optimum_with_a_valid_certificate(kind, with_classes, seed):
    X, y, delta = instance(kind, with_classes, seed)
    problem = SecantIsometryProgram(AllSecants(X, y), delta)
    result = SecantGeneration(tol=1e-4, first=20, add=10).solve(problem)
    whole = problem.restrict(every_pair(problem.secants))
    optimum, certificate = near_isometry_optimum(whole), result.certificate
    assert certificate.status is Status.CONVERGED
    assert_allclose(certificate.primal, optimum, rtol=1e-4)
    assert certificate.dual <= optimum * (1 + 1e-6)
    values = whole.operator.forward_factor(result.primal_point)
    assert values[whole.has_lower].min(initial=np.inf) >= 1 - delta - 1e-4 * delta
    assert values[whole.has_upper].max(initial=-np.inf) <= 1 + delta + 1e-4 * delta


@pytest.mark.parametrize("with_classes", [False, True])
@pytest.mark.parametrize("kind", ["generic", "scaled"])
@pytest.mark.costly
def test_plain_admm_agrees_with_and_without_conjugate_gradients(
    kind, with_classes, asarray, monkeypatch
):
    X, y, delta = instance(kind, with_classes)
    problem = SecantIsometryProgram(AllSecants(asarray(X), y), delta)
    keys = every_pair(problem.secants)
    reference = near_isometry_optimum(
        SecantIsometryProgram(AllSecants(X, y), delta).restrict(to_numpy(keys))
    )
    for direct in (admm.DIRECT_ON_CPU, 1):
        monkeypatch.setattr(admm, "DIRECT_ON_CPU", direct)
        monkeypatch.setattr(admm, "DIRECT_ON_GPU", direct)
        certificate = ADMM(tol=1e-4).solve(problem.restrict(keys)).certificate
        assert_allclose(certificate.primal, reference, rtol=2e-4)
        assert certificate.dual <= reference * (1 + 1e-6)


@pytest.mark.parametrize("with_classes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_interior_point_method_agrees(kind, with_classes, seed, asarray):
    """Every iterate is feasible and has a bound; a tight delta is no harder."""
    X, y, delta = instance(kind, with_classes, seed)
    for share in (1.0, 1e-3):
        problem = SecantIsometryProgram(AllSecants(asarray(X), y), share * delta)
        program = problem.restrict(every_pair(problem.secants))
        single = program.operator.V.dtype.itemsize == 4
        certificate = IsometryPath(tol=1e-5).solve(program).certificate
        exact = SecantIsometryProgram(AllSecants(X, y), share * delta)
        optimum = near_isometry_optimum(exact.restrict(every_pair(exact.secants)))
        assert_allclose(certificate.primal, optimum, rtol=1e-4 if single else 2e-5)
        assert certificate.dual <= optimum * (1 + 1e-5)
        assert single or certificate.violation <= 1e-6


@pytest.mark.parametrize("with_classes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_interior_point_method_goes_on_where_admm_takes_long(kind, with_classes, monkeypatch):
    monkeypatch.setattr(secant_generation, "PATIENCE", 2)
    X, y, delta = instance(kind, with_classes)
    problem = SecantIsometryProgram(AllSecants(X, y), delta)
    result = SecantGeneration(tol=1e-4, first=20, add=10).solve(problem)
    optimum = near_isometry_optimum(problem.restrict(every_pair(problem.secants)))
    assert result.certificate.status is Status.CONVERGED
    assert_allclose(result.certificate.primal, optimum, rtol=2e-4)


@pytest.mark.parametrize(("delta", "dtype"), [(1e-2, np.float32), (1e-2, float), (1e-4, float)])
@pytest.mark.parametrize("seed", [3, 4])
@pytest.mark.costly
def test_a_tight_delta_converges(seed, delta, dtype):
    """ADMM alone takes up to 20,000 steps here, or ends at P = 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(40, 8))
    model = NuMax(delta=delta).fit(X.astype(dtype))
    assert model.certificate_.status == "converged"
    assert model.history_["steps"][-1] < 2000


@pytest.mark.parametrize("few", [True, False])
def test_either_factorisation_solves_the_least_squares(few, asarray, monkeypatch):
    """A A* when there are fewer secants than entries of a symmetric matrix, A* A otherwise."""
    rng = np.random.default_rng(0)
    secants = AllSecants(asarray(rng.normal(size=(5 if few else 12, 5))))
    A = secants.operator(every_pair(secants))
    assert (A.n_symmetric > A.n_constraints) == few
    r = asarray(rng.normal(size=A.n_constraints))
    z, step, rest = ADMM(rho=0.7)._least_squares(A)(r)
    assert_allclose(to_numpy(A.gram() @ z + 0.7 * z), to_numpy(r), atol=1e-10)
    assert_allclose(to_numpy(A.adjoint(z)), to_numpy(step), atol=1e-12)
    assert rest == 0
    monkeypatch.setattr(admm, "DIRECT_ON_CPU", 1)
    monkeypatch.setattr(admm, "DIRECT_ON_GPU", 1)
    z, step, rest = ADMM(rho=0.7)._least_squares(A)(r)
    assert_allclose(to_numpy(A.gram() @ z + 0.7 * z + rest), to_numpy(r), atol=1e-10)
    assert_allclose(to_numpy(A.adjoint(z)), to_numpy(step), atol=1e-12)
    assert np.linalg.norm(to_numpy(rest)) <= CG_TOL * np.linalg.norm(to_numpy(r))


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e12])
def test_conjugate_gradients_in_half_precision_report_the_exact_residual(size, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(admm, "on_device", lambda array: True)
    monkeypatch.setattr(admm, "DIRECT_ON_GPU", 1)
    rng = np.random.default_rng(0)
    secants = AllSecants(torch.as_tensor(rng.normal(size=(40, 5)) * [1, 1, 0.1, 0.1, 0.01]))
    A = secants.operator(every_pair(secants))
    r = size * torch.as_tensor(rng.normal(size=A.n_constraints))
    z, step, rest = ADMM(rho=0.7)._least_squares(A)(r)
    assert_allclose(A.forward(step) + 0.7 * z + rest, r, atol=1e-9 * size)
    assert 1e-8 < rest.norm() / r.norm() < 2 * CG_TOL
    assert not any(part.any() for part in ADMM()._least_squares(A)(0 * r))


def advance(past, step, x):
    return past.extrapolated(past.add(x, step(x)).tolist())


def test_steps_of_a_linear_map_are_extrapolated_to_its_fixed_point(asarray, dtype):
    """In little more steps than it has dimensions; 100 plain ones leave a third of the way."""
    slow = asarray(np.diag([0.99, 0.8, 0.4, 0.1]).astype(dtype))
    goal = asarray(np.array([1, 2, 3, 4], dtype))
    past, x = admm._Past(0 * goal + 1), 0 * goal
    for _ in range(8):
        x = advance(past, lambda x: goal + slow @ (x - goal), x)
    known = slice(dtype == np.float32, None)  # the slowest is noise in single precision
    assert_allclose(
        to_numpy(x)[known], to_numpy(goal)[known], rtol=1e-5 if known.start == 0 else 1e-3
    )


def test_an_extrapolation_that_fails_is_taken_back():
    past, x = admm._Past(np.ones(2)), np.zeros(2)
    x = advance(past, lambda x: 0.9 * x + 1, x)
    jump = advance(past, lambda x: 0.9 * x + 1, x)
    assert_allclose(jump, 10)
    back = advance(past, lambda x: x + 5, jump)  # a residual five times the first one
    assert_allclose(back, 0.9 * x + 1)
    assert_allclose(advance(past, lambda x: x + 3, back), back + 3)


def test_steps_that_stay_the_same_up_to_rounding_are_not_extrapolated():
    """As ADMM's far from the optimum; differences that are noise point anywhere."""
    rng, past, x = np.random.default_rng(0), admm._Past(np.ones(50)), np.zeros(50)
    direction = rng.normal(size=50)
    for number in range(1, 20):
        x = advance(past, lambda x: x + direction * (1 + 1e-16 * rng.normal(size=50)), x)
        assert_allclose(x, number * direction, rtol=1e-2)


def test_extrapolated_steps_are_fewer(monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 12)) * np.geomspace(1, 0.05, 12)
    secants = AllSecants(X)
    program = SecantIsometryProgram(secants, 0.1).restrict(every_pair(secants))
    fast = ADMM(tol=1e-4).solve(program)
    monkeypatch.setattr(admm, "MEMORY", 1)
    plain = ADMM(tol=1e-4).solve(program)
    assert_allclose(fast.certificate.primal, plain.certificate.primal, rtol=2e-4)
    assert fast.n_iter < 0.7 * plain.n_iter


@pytest.mark.parametrize(("delta", "change"), [(0.05, -1), (0.9, 1)])
def test_the_ratio_of_penalties_follows_what_lags_behind(delta, change, monkeypatch):
    """Violations in units of a small delta, the gap for a large one."""
    monkeypatch.setattr(secant_generation, "FIRST_RATIO", 1 / delta)
    ratios, steps = [], ADMM.steps
    monkeypatch.setattr(
        ADMM, "steps", lambda self, *args: ratios.append(self.rho) or steps(self, *args)
    )
    X = np.random.default_rng(0).normal(size=(60, 12)) * np.geomspace(1, 0.05, 12)
    solver = SecantGeneration(first=200, add=100)
    assert solver.solve(SecantIsometryProgram(AllSecants(X), delta)).status is Status.CONVERGED
    assert ratios[0] == 1 and change * (ratios[-1] - 1) > 0


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 0.9), st.booleans())
def test_the_identity_is_feasible_and_any_multipliers_bound_from_below(seed, delta, classes):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(8, 4)), rng.integers(0, 2, 8) if classes else None
    problem = SecantIsometryProgram(AllSecants(X, y), delta)
    keys = every_pair(problem.secants)
    bounds = problem.certify(np.eye(4), Multipliers(keys, rng.normal(size=len(keys))))
    assert bounds.violation == 0
    assert bounds.primal == 4
    assert 0 <= bounds.dual <= 4


def test_stationarity_and_complementarity():
    X, _, delta = instance("duplicates", False)
    problem = SecantIsometryProgram(AllSecants(X), delta)
    result = SecantGeneration(tol=1e-6).solve(problem)
    keys, multipliers = result.dual_point
    active = problem.restrict(keys)
    P = result.primal_point @ result.primal_point.T
    S = np.eye(len(P)) - active.operator.adjoint(multipliers)
    assert np.linalg.eigvalsh(S)[0] > -1e-5
    assert abs(np.trace(S @ P)) < 1e-5 * np.trace(P)
    values, weight = active.operator.forward(P), abs(multipliers) > 1e-3 * abs(multipliers).max()
    assert_allclose(
        values[weight], np.where(multipliers > 0, 1 - delta, 1 + delta)[weight], atol=1e-4
    )


def test_scans_stop_early_go_round_and_end_with_every_pair_in_double_precision(monkeypatch):
    monkeypatch.setattr("conemetric.papers.numax.secant_generation.SINGLE_FROM", 30)
    monkeypatch.setattr("conemetric.papers.numax.secant_tiles.CPU_TILE", (32, 32))
    X = np.random.default_rng(0).normal(size=(150, 4))
    problem = SecantIsometryProgram(AllSecants(X), 0.3)
    seen = []
    scan = problem.secants.scan

    def watched(L, delta, dtype, first_tile=0, **which):
        found = scan(L, delta, dtype, first_tile=first_tile, **which)
        seen.append((dtype, first_tile, found.next_tile))
        return found

    monkeypatch.setattr(problem.secants, "scan", watched)
    result = SecantGeneration(first=20, add=10).solve(problem)
    assert result.status is Status.CONVERGED
    precision, began, stopped = zip(*seen, strict=True)
    assert precision[0] == np.float32 and set(precision[-2:]) == {np.float64}
    assert stopped[0] is not None and began[1] == stopped[0]
    assert stopped[-2:] == (None, None)


def test_warm_start_takes_fewer_steps():
    X = np.random.default_rng(1).normal(size=(40, 6)) * np.arange(1, 7)
    first = SecantGeneration().solve(SecantIsometryProgram(AllSecants(X), 0.3))
    problem = SecantIsometryProgram(AllSecants(X), 0.29)
    cold = SecantGeneration().solve(problem)
    warm = SecantGeneration().solve(problem, start=(first.primal_point, first.dual_point))
    assert_allclose(warm.certificate.primal, cold.certificate.primal, rtol=2e-3)
    assert warm.history["steps"][-1] < cold.history["steps"][-1]


def test_eigenvalues_are_cut_only_where_the_violation_has_room():
    factor = np.diag([1.0, 0.1, 0.01])  # eigenvalues 1, 1e-2, 1e-4
    cut, violation = _cut(factor, worst=0.0, tol=1e-3, delta=0.5)
    assert cut.shape == (3, 2) and 0 < violation <= 1e-3
    cut, violation = _cut(factor, worst=0.9e-3, tol=1e-3, delta=0.5)
    assert cut.shape == (3, 3) and violation == 0.9e-3


def test_single_precision_solves_and_is_certified_in_double(asarray):
    X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    exact = (
        SecantGeneration()
        .solve(SecantIsometryProgram(AllSecants(X.astype(np.float64)), 0.2))
        .certificate
    )
    result = SecantGeneration().solve(SecantIsometryProgram(AllSecants(asarray(X)), 0.2))
    assert result.certificate.status is Status.CONVERGED
    assert to_numpy(result.primal_point).dtype == np.float32
    assert exact.dual * (1 - 1e-3) <= result.certificate.primal <= exact.primal * (1 + 2e-3)
    assert result.certificate.dual <= exact.primal


def test_listed_secants_solve_their_own_program(asarray):
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(15, 4)), rng.integers(0, 15, (60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    problem = SecantIsometryProgram(ListedSecants(asarray(X), pairs), 0.2)
    certificate = SecantGeneration(tol=1e-4, first=10, add=5).solve(problem).certificate
    listed = SecantIsometryProgram(ListedSecants(X, pairs), 0.2)
    assert_allclose(
        certificate.primal, near_isometry_optimum(listed.restrict(np.arange(len(pairs)))), rtol=1e-4
    )


def test_an_exhausted_inner_solver_goes_on_while_it_gains():
    # every third row: 2,000 steps of ADMM in one round are not enough
    X, y = load_iris(return_X_y=True)
    assert NuMax(0.1, class_aware=True).fit(X[::3], y[::3]).certificate_.status == "converged"


@pytest.mark.parametrize("delta", [0.01, 0.02])
def test_few_secants_are_not_dropped(delta, seed):
    """Without those that were dropped, ADMM took thousands of steps."""
    problem = SecantIsometryProgram(AllSecants(load_iris().data), delta)
    result = SecantGeneration(seed=seed).solve(problem)
    assert result.certificate.status is Status.CONVERGED
    assert result.history["steps"][-1] < 500
