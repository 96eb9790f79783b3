"""What every solver promises, on one small program each: the optimum, the stopping rule, Ctrl-C,
callbacks, honest starts and requirements; on every backend and in both precisions it knows.
"""

import operator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from instances import triplet_instance
from oracles import (
    comparison_optimum,
    frobenius_optimum,
    mmmf_optimum,
    near_isometry_optimum,
    soft_margin_optimum,
    trace_optimum,
)
from sklearn.exceptions import ConvergenceWarning

from conemetric.core.arrays import like, to_numpy
from conemetric.engine.certificate import Status, relative_gap
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.losses import Logistic
from conemetric.engine.operators import from_pairs, from_triplets
from conemetric.engine.proximal_point import ProximalPoint
from conemetric.engine.solver import Solver
from conemetric.papers.boostmetric.column_generation import ColumnGeneration
from conemetric.papers.boostmetric.price_search import PriceSearch
from conemetric.papers.boostmetric.program import TraceProgram
from conemetric.papers.boostmetric.soft_margin import SoftMarginProgram
from conemetric.papers.eigenvalue.factored_descent import FactoredDescent
from conemetric.papers.eigenvalue.program import DMLEigProgram, MMMFProgram
from conemetric.papers.numax.admm import ADMM
from conemetric.papers.numax.interior_point import IsometryPath
from conemetric.papers.numax.program import SecantIsometryProgram
from conemetric.papers.numax.secant_generation import SecantGeneration
from conemetric.papers.numax.secants import AllSecants
from conemetric.papers.relative_comparisons.dual_coordinate import DualCoordinate
from conemetric.papers.relative_comparisons.program import ComparisonProgram
from conemetric.papers.relative_comparisons.semismooth_newton import SemismoothNewton
from conemetric.papers.unfolding.edges import EdgeOperator
from conemetric.papers.unfolding.low_rank_lagrangian import LowRankLagrangian
from conemetric.papers.unfolding.program import UnfoldingProgram

X, T = triplet_instance("labels")
V = 0.5
RATINGS = np.random.default_rng(0).integers(0, 2, (6, 5))
ROWS, COLUMNS = np.divmod(np.arange(RATINGS.size), 5)


def dissimilar(points):
    pairs = np.array([[0, 7], [1, 9], [2, 8], [3, 10]])
    return from_pairs(like(points, points, points.dtype), pairs)


def explicit_isometry(points):
    secants = AllSecants(points)
    whole = SecantIsometryProgram(secants, 0.3)
    return whole.restrict(secants.sample(40, np.random.default_rng(0)))


def ring(points):
    n = 8
    edges = np.array([[i, (i + 1) % n] for i in range(n)])
    return UnfoldingProgram(EdgeOperator(edges, n, points[:1, 0]), np.ones(n), 50.0, False)


@dataclass(frozen=True)
class Case:
    """A solver, the program it is tried on, the program's optimum where an oracle has it."""

    solver: Solver
    make: Any
    optimum: Any = None
    arrays: bool = True  # whether points may be tensors, and in single precision
    reaches: float = 1e-3
    in_single: float = 1e-3  # the gap it reaches in float32
    start: Any = operator.attrgetter("dual_point")  # what it resumes from, of an iterate


CASES = {
    "DualQuasiNewton": Case(
        DualQuasiNewton(),
        lambda P: FrobeniusProgram(from_triplets(P, T), 2.0),
        lambda: frobenius_optimum(X, T, 2.0),
    ),
    "ProximalPoint": Case(
        ProximalPoint(),
        lambda P: DMLEigProgram(dissimilar(P).astype(np.float64)),
        arrays=False,
        start=operator.attrgetter("state"),
    ),
    "ColumnGeneration": Case(
        ColumnGeneration(corrective=True),
        lambda P: TraceProgram(from_triplets(P, T), V, Logistic()),
        lambda: trace_optimum(X, T, "logistic", V)[0],
        in_single=1e-2,
        start=operator.attrgetter("state"),
    ),
    "PriceSearch": Case(
        PriceSearch(),
        lambda P: SoftMarginProgram(from_triplets(P, T), 0.2),
        lambda: soft_margin_optimum(X, T, 0.2),
    ),
    "DualCoordinate": Case(
        DualCoordinate(),
        lambda P: ComparisonProgram(from_triplets(P, T), 0.1),
        lambda: comparison_optimum(squared_differences(), np.eye(X.shape[1]), 0.1),
        arrays=False,
    ),
    "SemismoothNewton": Case(
        SemismoothNewton(),
        lambda P: ComparisonProgram(from_triplets(P, T), 0.1),
        lambda: comparison_optimum(squared_differences(), np.eye(X.shape[1]), 0.1),
        arrays=False,
    ),
    "FactoredDescent": Case(
        FactoredDescent(),
        lambda P: MMMFProgram((ROWS, COLUMNS, RATINGS.ravel()), RATINGS.shape, np.zeros(1), 0.7),
        lambda: mmmf_optimum(ROWS, COLUMNS, RATINGS.ravel(), RATINGS.shape, np.zeros(1), 0.7),
        arrays=False,
    ),
    "LowRankLagrangian": Case(
        LowRankLagrangian(), ring, arrays=False, start=operator.attrgetter("primal_point")
    ),
    "ADMM": Case(
        ADMM(tol=1e-3),
        explicit_isometry,
        lambda: near_isometry_optimum(explicit_isometry(X)),
        start=operator.attrgetter("primal_point", "dual_point"),
    ),
    "IsometryPath": Case(
        IsometryPath(tol=1e-3),
        explicit_isometry,
        lambda: near_isometry_optimum(explicit_isometry(X)),
    ),
    "SecantGeneration": Case(
        SecantGeneration(),
        lambda P: SecantIsometryProgram(AllSecants(P), 0.3),
        start=operator.attrgetter("primal_point", "dual_point"),
    ),
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def squared_differences():
    far, near = X[T[:, 0]] - X[T[:, 2]], X[T[:, 0]] - X[T[:, 1]]
    return far**2 - near**2


def solvers_of_the_library():
    found, queue = set(), [Solver]
    while queue:
        kind = queue.pop()
        queue += kind.__subclasses__()
        if kind.__module__.startswith("conemetric.") and kind is not Solver:
            found.add(kind.__name__)
    return found


def test_every_solver_is_tried():
    assert set(CASES) >= solvers_of_the_library() - {"InteriorPoint"}  # which has its own file


@pytest.mark.cases(6)
@EVERY
def test_optimum_and_stopping_rule(case):
    result = case.solver.solve(case.make(X))
    certificate = result.certificate
    assert abs(certificate.relative_gap) <= case.reaches
    if case.reaches <= 1e-3:
        assert result.status is Status.CONVERGED
        assert certificate.violation <= case.solver.tol
    if case.optimum is not None:
        optimum, slack = case.optimum(), 1e-6
        assert certificate.dual <= optimum + slack * abs(optimum)
        assert certificate.primal == pytest.approx(optimum, rel=2 * case.solver.tol)


@EVERY
@pytest.mark.costly
def test_libraries_and_precisions(case, asarray, dtype):
    if not case.arrays:
        pytest.skip("this program is stated in float64 on the host")
    result = case.solver.solve(case.make(asarray(X.astype(dtype))))
    reference = case.solver.solve(case.make(X.astype(dtype).astype(np.float64)))
    reaches = case.in_single if dtype is np.float32 else case.reaches
    assert abs(result.certificate.relative_gap) <= reaches
    reference = reference.certificate.primal
    assert result.certificate.primal == pytest.approx(reference, rel=3 * reaches)
    assert to_numpy(result.primal_point).dtype == dtype


@pytest.mark.cases(6)
@EVERY
def test_history_and_callback_see_every_iteration(case):
    seen = []
    result = case.solver.solve(case.make(X), callback=seen.append)
    assert len(seen) == result.n_iter + 1 == len(result.history["primal"])
    assert [record["iteration"] for record in seen] == list(range(len(seen)))
    for name, values in result.history.items():
        np.testing.assert_array_equal(values, [record.get(name, np.nan) for record in seen])


@EVERY
def test_a_callback_stops_it(case):
    solver = (
        replace(case.solver, tol=0.0) if "Secant" not in type(case.solver).__name__ else case.solver
    )
    result = solver.solve(case.make(X), callback=lambda record: record["iteration"] >= 1)
    assert result.n_iter <= 1
    assert result.status in (Status.STOPPED, Status.CONVERGED, Status.STALLED)


@pytest.mark.cases(6)
@EVERY
def test_ctrl_c_keeps_the_best_point(case):
    def interrupt(record):
        if record["iteration"] == 1:
            raise KeyboardInterrupt

    if case.solver.solve(case.make(X)).n_iter < 2:
        pytest.skip("done before it could be interrupted")
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = case.solver.solve(case.make(X), callback=interrupt)
    assert result.status is Status.INTERRUPTED
    problem = case.make(X)
    bounds = problem.certify(result.primal_point, result.dual_point)
    assert relative_gap(*bounds[:2]) == pytest.approx(result.certificate.relative_gap, rel=1e-9)


@EVERY
def test_a_start_is_used_or_refused(case):
    if not case.solver.takes_start:
        with pytest.raises(TypeError, match="pass no start"):
            case.solver.solve(case.make(X), start=np.zeros(3))
        return
    problem = case.make(X)

    def missed(iterate):
        return abs(relative_gap(iterate.primal, iterate.dual)) + iterate.violation

    steps = islice(case.solver.steps(problem, None), 40)
    first = missed(next(steps))
    later = next(each for each in steps if missed(each) < first / 4)
    resumed = next(iter(case.solver.steps(problem, case.start(later))))
    assert missed(resumed) < 0.8 * first


@EVERY
def test_requirements_are_checked_before_work(case):
    class Nothing:
        def certify(self, primal_point, dual_point):
            raise AssertionError("never asked")

    with pytest.raises(TypeError, match="not Nothing"):
        case.solver.solve(Nothing())
