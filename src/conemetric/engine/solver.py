"""The loop that all solvers share: stopping rule, status, certificate, history, callback, Ctrl-C.

An algorithm is a generator of iterates (`Solver.steps`). The loop keeps the best primal and the
best dual point, stops when

    |primal - dual| / max(|primal|, |dual|) <= tol    and    violation <= tol

(no absolute floor: objectives scale with the units of the data), and certifies the points it kept
in float64, outside the algorithm.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.advice import Advice
from ..core.arrays import Array
from ..core.blas import blas_threads_for
from ..core.clock import stopwatch
from ..core.progress import emit, is_all_or_nothing
from ..core.warn import warn_user
from .certificate import SHORT_OF_TOL, Certificate, Status, relative_gap
from .program import Problem

SAVE_EVERY = 20  # iterations between checkpoints of vectors in blocks (`VectorSpace.save_state`)


LOGISTIC = "raise v, or use the logistic loss, which always has a minimum"
REMEDIES = {  # where more iterations do not help
    Status.INFEASIBLE: {"": "drop or relax constraints"},
    Status.UNBOUNDED: {"v": LOGISTIC},
}


class NotConvergedWarning(Advice, ConvergenceWarning):
    """The certificate misses ``tol``."""


@dataclass(frozen=True)
class Iterate:
    """The state after an iteration; ``extra`` holds more scalars for the history.

    Without a ``dual_point`` the dual value bounds this primal point only, and replaces earlier
    ones. ``state`` is what the algorithm can resume from, if its points are not enough.
    """

    primal: float
    dual: float
    primal_point: Array
    dual_point: Any
    violation: float = 0.0
    extra: Mapping[str, float] = field(default_factory=dict)
    state: Any = None


Steps = Iterator[Iterate]


class Infeasible(Exception):
    """Raised if an algorithm has proven its program infeasible; carries the last iterate."""

    def __init__(self, message: str, iterate: Iterate):
        super().__init__(message)
        self.iterate = iterate


@dataclass(frozen=True)
class SolveResult:
    """Best points found, their certificate, and the history of each scalar.

    ``kept`` is what `Solver.solve` was asked to keep, ``state`` that of the last iterate.
    """

    primal_point: Array
    dual_point: Any
    certificate: Certificate
    n_iter: int
    history: dict[str, np.ndarray]
    kept: Any = None
    state: Any = None

    @property
    def status(self) -> Status:
        return self.certificate.status


Callback = Callable[[dict[str, float]], bool | None]


@dataclass(frozen=True)
class Solver(ABC):
    """Base of all solvers: ``solves`` is the family of programs it is for, and ``takes_start`` says
    whether it can begin from a given point; both are checked before the first iteration.
    """

    tol: float = 1e-3
    max_iter: int = 1000

    solves: ClassVar[type] = Problem
    takes_start: ClassVar[bool] = True
    remedy: ClassVar[str] = "raise max_iter or loosen tol"

    @abstractmethod
    def steps(self, problem: Any, start: Any) -> Steps:
        """Yield the start, then an iterate per iteration; return if no progress is possible."""

    def solve(
        self,
        problem: Problem,
        start: Any = None,
        callback: Callback | None = None,
        keep: Callable[[Any], tuple[Any, Array]] | None = None,
        name: str | None = None,
        retried: bool = False,
    ) -> SolveResult:
        """Run to ``tol``, ``max_iter`` or Ctrl-C and return the best certified point, with a
        `ConvergenceWarning` if its gap is above ``tol``.

        ``start`` is a point to begin from (default: the problem's own). ``callback`` receives a
        dict of scalars after each iteration, and stops the solve if it returns true. ``keep`` maps
        the best primal point to ``(kept, point)``: what the caller stores of it (rotated,
        truncated, rounded), and the same as a point of the program, which is then the one
        certified. ``name`` is the subject of warnings (default: the solver). With ``retried`` the
        caller solves again by other means if ``tol`` is missed, and no warning is given.
        """
        own = type(self).__name__
        if not isinstance(problem, self.solves):
            raise TypeError(f"{own} solves a {self.solves.__name__}, not {type(problem).__name__}.")
        if start is not None and not self.takes_start:
            raise TypeError(f"{own} always begins at the start of its problem; pass no start.")
        with blas_threads_for(problem.dense_work):
            best, status, reason = self._run_steps(problem, start, callback)
            point = problem.scaled(best.primal_point)
            kept = None
            if keep is not None:
                kept, point = keep(point)
            bounds = problem.certify(point, best.dual_point)
            if status not in (Status.INTERRUPTED, Status.INFEASIBLE):
                reason = problem.unbounded(point)
                if reason:
                    status = Status.UNBOUNDED
        certificate = Certificate.from_bounds(bounds, status).judged(self.tol)
        if not (retried and certificate.status in SHORT_OF_TOL):
            self.warn(certificate, best.n_iter, name or own, reason)
        return SolveResult(
            point, best.dual_point, certificate, best.n_iter, best.history(), kept, best.state
        )

    def _run_steps(
        self, problem: Problem, start: Any, callback: Callback | None
    ) -> tuple["_Best", Status, str]:
        """The best points of a run, why it ended, and for an infeasible program the proof in words."""
        best = _Best(self.tol)
        # algorithms return only where no progress is possible in this precision
        status = Status.STALLED
        try:
            for iterate in self.steps(problem, start):
                record = best.take(iterate)
                stop = callback is not None and callback(record)
                # `emit` comes first, so that watchers see the iterate at which a callback stops
                if emit("solve", **record, tol=self.tol) or stop:
                    status = Status.STOPPED
                elif best.converged:
                    status = Status.CONVERGED
                elif best.n_iter >= self.max_iter:
                    status = Status.MAX_ITER
                if status is not Status.STALLED:
                    break
        except KeyboardInterrupt:
            # no point to return yet, or a series that must not go on with an unfinished solve
            if best.n_iter < 0 or is_all_or_nothing():
                raise
            status = Status.INTERRUPTED
        except Infeasible as proof:
            best.take(proof.iterate)
            return best, Status.INFEASIBLE, str(proof)
        return best, status, ""

    def warn(self, certificate: Certificate, n_iter: int, name: str, reason: str = "") -> None:
        """Warn unless the certificate meets ``tol``."""
        status = certificate.status
        is_solved = status is Status.STOPPED and certificate.meets(self.tol)
        if status is Status.CONVERGED or is_solved:
            return
        shortfall = f"relative gap {certificate.relative_gap:.2e}"
        if certificate.violation:
            shortfall += f" and constraints missed by {certificate.violation:.2e}"
        cause = reason or f"{shortfall}, tol={self.tol:g}"
        ended = f"{name} ended as '{status}' after {n_iter} iterations: {cause}"
        remedies = REMEDIES.get(status, {"tol": self.remedy})
        warn_user(NotConvergedWarning(f"{ended}. The best certified point is returned", remedies))


class _Best:
    """Best primal and best dual point of a run, its last state, and its history."""

    def __init__(self, tol: float) -> None:
        self.tol = tol
        self.state = None
        self.primal = np.inf
        self.violation = np.inf
        self.dual = -np.inf
        self.primal_point: Any = None
        self.dual_point: Any = None
        self._records: list[dict[str, float]] = []
        self._began = stopwatch()

    @property
    def n_iter(self) -> int:
        """Number of the last iterate that was taken; -1 if Ctrl-C came before the first was."""
        return len(self._records) - 1

    def take(self, iterate: Iterate) -> dict[str, float]:
        self.state = iterate.state
        # an iterate within tol replaces both points; until then they may come from different ones
        enough = self._within_tol(iterate, iterate.dual)
        if enough or iterate.dual > self.dual or self.dual_point is None:
            self.dual = iterate.dual
            self.dual_point = iterate.dual_point
        if enough or self.primal_point is None or self._rank(iterate) < self._rank(self):
            self.primal = iterate.primal
            self.violation = iterate.violation
            self.primal_point = iterate.primal_point
        record = {
            "iteration": len(self._records),
            "seconds": stopwatch() - self._began,
            "primal": iterate.primal,
            "dual": iterate.dual,
            "relative_gap": relative_gap(self.primal, self.dual),
            "violation": iterate.violation,
            **iterate.extra,
        }
        self._records.append(record)
        return record

    def _rank(self, candidate: "Iterate | _Best") -> tuple[float, float]:
        """By violation if that is above ``tol``, then by distance from the bound."""
        distance = candidate.primal
        if self.dual > -np.inf:
            distance = abs(candidate.primal - self.dual)
        return max(candidate.violation, self.tol), distance

    def _within_tol(self, candidate: "Iterate | _Best", dual: float) -> bool:
        gap = abs(relative_gap(candidate.primal, dual))
        return gap <= self.tol and candidate.violation <= self.tol

    @property
    def converged(self) -> bool:
        return self._within_tol(self, self.dual)

    def history(self) -> dict[str, np.ndarray]:
        if not self._records:
            return {}
        columns = {}
        for name in self._records[0]:
            values = [record.get(name, np.nan) for record in self._records]
            columns[name] = np.array(values)
        return columns
