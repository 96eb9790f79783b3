"""The common loop: status, interruption, warnings, history, and the program a solver is for."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import ThreadpoolController

from conemetric.core.blas import WORK_PER_THREAD
from conemetric.core.progress import all_or_nothing
from conemetric.engine.certificate import Bounds, Certificate, Status, relative_gap
from conemetric.engine.program import Problem, SpectralDual
from conemetric.engine.solver import Infeasible, Iterate, Solver, _Best


class Counting(Problem):
    """Primal bounds 1 + 1/k and dual bounds 1 - 1/k; points are the k they came from."""

    def certify(self, primal_point, dual_point):
        return Bounds(1 + 1 / primal_point, 1 - 1 / dual_point)


@dataclass(frozen=True)
class Counter(Solver):
    fail_at: int | None = None
    error: type[BaseException] = KeyboardInterrupt
    stop_at: int | None = None

    def steps(self, problem, start):
        k = start or 1
        while k != self.stop_at:
            if k == self.fail_at:
                if self.error is Infeasible:
                    raise Infeasible("no point exists", Iterate(np.inf, 5.0, k, k))
                raise self.error
            yield Iterate(1 + 1 / k, 1 - 1 / k, k, k, extra={"k": k})
            k += 1


def test_stops_at_the_tolerance_and_keeps_the_history():
    result = Counter(tol=0.1).solve(Counting())
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 0.1
    assert result.n_iter == len(result.history["primal"]) - 1
    assert np.all(np.diff(result.history["k"]) == 1)
    assert result.certificate.gap == pytest.approx(2 / (result.n_iter + 1))


@pytest.mark.parametrize("threads_worth", [0.5, 2.0, 100.0])
def test_a_small_program_is_solved_by_one_blas_thread_and_a_large_one_by_several(threads_worth):
    class Sized(Counting):
        dense_work = threads_worth * WORK_PER_THREAD

        def certify(self, primal_point, dual_point):
            seen.append(n_threads())
            return super().certify(primal_point, dual_point)

    def n_threads():
        return max(each.num_threads for each in libraries.lib_controllers)

    libraries = ThreadpoolController().select(user_api="blas")
    seen = []
    allowed = 3
    with libraries.limit(limits=allowed):
        Counter(tol=0.1).solve(Sized(), callback=lambda record: seen.append(n_threads()))
        assert n_threads() == allowed
    assert set(seen) == {int(min(allowed, max(1, threads_worth)))}


def test_ctrl_c_keeps_the_best_certified_iterate():
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        result = Counter(tol=0, fail_at=7).solve(Counting())
    assert result.status is Status.INTERRUPTED
    assert result.primal_point == 6


def test_ctrl_c_before_any_iterate_is_raised():
    with pytest.raises(KeyboardInterrupt):
        Counter(fail_at=1).solve(Counting())


class Pressed(Iterate):
    """Ctrl-C comes while it is taken."""

    @property
    def violation(self):
        raise KeyboardInterrupt

    @violation.setter
    def violation(self, value):
        pass


def test_ctrl_c_while_the_first_iterate_is_taken_is_raised():
    best = _Best(tol=0.1)
    with pytest.raises(KeyboardInterrupt):
        best.take(Pressed(2.0, 1.0, 1, 1))
    assert best.n_iter == -1  # so that the solve has no point to return
    best.take(Iterate(2.0, 1.0, 1, 1))
    assert best.n_iter == 0 and best.history()["iteration"].tolist() == [0]


def test_ctrl_c_ends_all_where_one_solve_is_no_result():
    with all_or_nothing(), pytest.raises(KeyboardInterrupt):
        Counter(tol=0, fail_at=7).solve(Counting())


def test_missing_the_tolerance_warns_with_gap_tolerance_and_remedy():
    with pytest.warns(
        ConvergenceWarning,
        match=r"'max_iter' after 5 iterations: relative gap .*tol=1e-09.*raise max_iter",
    ):
        result = Counter(tol=1e-9, max_iter=5).solve(Counting())
    assert result.status is Status.MAX_ITER
    with pytest.warns(ConvergenceWarning, match="stalled"):
        assert Counter(tol=1e-9, stop_at=4).solve(Counting()).status is Status.STALLED


def test_an_optimistic_solver_is_overruled_by_the_certificate():
    class Dishonest(Counting):
        def certify(self, primal_point, dual_point):
            return Bounds(2.0, 1.0)

    with pytest.warns(ConvergenceWarning, match="stalled"):
        assert Counter(tol=0.5 - 1e-9, max_iter=50).solve(Dishonest()).status is Status.STALLED


def test_callback_sees_scalars_and_can_stop():
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = Counter(tol=0).solve(
            Counting(), callback=lambda record: seen.append(record) or len(seen) == 3
        )
    assert result.status is Status.STOPPED
    assert [record["iteration"] for record in seen] == [0, 1, 2]


def test_infeasibility_is_reported():
    with pytest.warns(ConvergenceWarning, match="no point exists"):
        result = Counter(tol=0, fail_at=3, error=Infeasible).solve(Counting())
    assert result.status is Status.INFEASIBLE


def test_requirements_are_checked_before_the_first_iteration():
    @dataclass(frozen=True)
    class Demanding(Counter):
        solves = SpectralDual

    with pytest.raises(TypeError, match="Demanding solves a SpectralDual, not Counting"):
        Demanding().solve(Counting())


def test_relative_gap_has_no_absolute_floor():
    assert relative_gap(2e-30, 1e-30) == pytest.approx(0.5)
    assert relative_gap(0.0, 0.0) == 0.0
    assert np.isnan(relative_gap(np.nan, 1.0))  # within no tolerance


def test_without_a_bound_the_lowest_value_is_kept():
    class Unbounded(Counter):
        def steps(self, problem, start):
            for k in (1, 2, 3):
                yield Iterate(1 + 1 / k, -np.inf, k, k)

    with pytest.warns(ConvergenceWarning):
        assert Unbounded().solve(Counting()).primal_point == 3


def test_a_truncated_point_violates_as_much_unless_said_otherwise():
    certificate = Certificate.from_bounds(Bounds(1.0, 1.0, 1e-4), Status.CONVERGED)
    assert certificate.truncated(1.5, 1e-3).violation == 1e-4
    cut = certificate.truncated(1.5, 1e-3, 0.0)
    assert (cut.violation, cut.gap, cut.status) == (0.0, 0.5, Status.TRUNCATED)
