"""What every solver shares: the outer loop, its stopping rule, status, certificate,
history, callback and Ctrl-C.

An algorithm is a generator of iterates (`Solver.steps`); the loop around it lives
here, once. It keeps the best primal and the best dual point seen, stops when

    |primal - dual| / max(|primal|, |dual|) <= tol    and    violation <= tol

(no absolute floor: objectives scale with the units of the data), and certifies the
points it kept in float64, outside the algorithm.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.compiled import stopwatch
from ..core.notebooks import html_table
from ..core.progress import emit, is_all_or_nothing
from ..core.warn import warn_user
from ..problems.base import Bounds, Problem

# iterations after which multipliers in blocks are settled (`operators.space`)
SAVE_EVERY = 20


class Status(StrEnum):
    """Why a solve ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STALLED = "stalled"  # the algorithm can make no further progress in this precision
    TRUNCATED = "truncated"  # solved, then cut to fewer directions as asked
    INTERRUPTED = "interrupted"  # Ctrl-C
    STOPPED = "stopped"  # the callback asked for it
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"  # the program is proven to have no minimum


SHORT_OF_TOL = Status.STALLED, Status.MAX_ITER
# where going on is no remedy
REMEDIES = {
    Status.INFEASIBLE: "drop or loosen constraints",
    Status.UNBOUNDED: "raise v, or take the logistic loss, which always has a minimum",
}


def relative_gap(primal, dual):
    """(primal - dual) / max(|primal|, |dual|); 0 where both are 0, infinity while there
    is no bound.
    """
    size = max(abs(primal), abs(dual))
    if size == np.inf:
        return np.inf
    return (primal - dual) / size if size > 0 else 0.0


@dataclass(frozen=True)
class Certificate:
    """A proven statement about a solution: ``dual <= optimum``, and the returned point
    has value ``primal``.

    Attributes
    ----------
    primal, dual : float
        Objective of the returned point; lower bound on the optimum (for a maximisation
        both change sign).
    gap, relative_gap : float
        ``primal - dual``, and that over ``max(|primal|, |dual|)``.
    violation : float
        How far the returned point misses its constraints, relative to their size; 0
        where it cannot.
    status : Status
        Why the solver stopped.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    violation: float
    status: Status

    @classmethod
    def from_bounds(cls, bounds: Bounds, status: Status):
        primal, dual, violation = (float(value) for value in bounds)
        return cls(primal, dual, primal - dual, relative_gap(primal, dual), violation, status)

    def _repr_html_(self) -> str:
        figures = {name: f"{value:.6g}" for name, value in vars(self).items() if name != "status"}
        return html_table(f"Certificate: {self.status}", figures)

    def meets(self, tol):
        """Whether gap and violation are within ``tol``."""
        return abs(self.relative_gap) <= tol and self.violation <= tol

    def truncated(self, primal, tol):
        """The certificate of what a cut left, a point of value ``primal``: the bound
        holds as before, and the gap now includes what the cut costs.
        """
        status = self.status
        cut = Certificate.from_bounds(Bounds(primal, self.dual, self.violation), status)
        if status is Status.CONVERGED and not cut.meets(tol):
            cut = replace(cut, status=Status.TRUNCATED)
        return cut


@dataclass(frozen=True)
class Iterate:
    """What an algorithm yields after an iteration; ``extra`` holds more scalars for the history.

    Without a ``dual_point`` the dual value bounds this iterate's primal point only, and
    takes the place of earlier ones. ``state`` is what the algorithm can go on from, where
    that is more than its points.
    """

    primal: float
    dual: float
    primal_point: Any
    dual_point: Any
    violation: float = 0.0
    extra: dict[str, float] = field(default_factory=dict)
    state: Any = None


class Infeasible(Exception):
    """Raised by an algorithm that has proven its program infeasible; carries the last iterate."""

    def __init__(self, message, iterate):
        super().__init__(message)
        self.iterate = iterate


@dataclass(frozen=True)
class SolveResult:
    """Best points found, their certificate, and the history of scalars (one array per
    name, one entry per iteration).

    ``kept`` is what the caller asked to keep of the primal point (see `Solver.solve`), and
    ``state`` the last iterate's.
    """

    primal_point: Any
    dual_point: Any
    certificate: Certificate
    n_iter: int
    history: dict[str, np.ndarray]
    kept: Any = None
    state: Any = None

    @property
    def status(self):
        return self.certificate.status


Callback = Callable[[dict[str, float]], bool | None]


@dataclass(frozen=True)
class Solver(ABC):
    """Base of all solvers.

    ``requires`` names what the algorithm uses of its problem ("operator.gram": of the
    problem's operator) and ``takes_start`` says whether it can begin from a given point;
    both are checked before the first iteration.
    """

    tol: float = 1e-3
    max_iter: int = 1000

    requires: ClassVar[tuple[str, ...]] = ()
    takes_start: ClassVar[bool] = True
    remedy: ClassVar[str] = "raise max_iter or loosen tol"

    @abstractmethod
    def steps(self, problem, start) -> Iterator[Iterate]:
        """Yield the starting point, then one iterate per iteration; return when no
        progress is possible.
        """

    def solve(
        self,
        problem: Problem,
        start=None,
        callback: Callback | None = None,
        keep: Callable | None = None,
        name: str | None = None,
        measure: Callable | None = None,
        retried: bool = False,
    ) -> SolveResult:
        """Run to ``tol``, ``max_iter`` or Ctrl-C and return the best certified point.

        Parameters
        ----------
        problem : Problem
        start : dual or primal point to begin from, as the algorithm says; default: the problem's own
        callback : callable, default=None
            Called after each iteration with a dict of scalars; a true return value
            stops the solve.
        keep : callable, default=None
            What the caller will store of the best primal point (rotated, its rank
            settled, rounded), as ``(kept, point)`` with ``point`` the same in the terms
            of the program. The certificate is about that point, which takes the place
            of the other. None stores the point as it is.
        name : str, default=None
            Who asks, in a warning; None is the solver itself.
        measure : callable, default=None
            From each iterate's primal point to a dict of further scalars, which join the
            record that callbacks see and the history.
        retried : bool, default=False
            Whether the caller solves again by other means should this solve miss ``tol``,
            so that no warning is due.

        Warns
        -----
        ConvergenceWarning
            When the certified gap is above ``tol``, with gap, tolerance and remedy.
        """
        missing = [name for name in self.requires if not _has(problem, name)]
        if missing:
            raise TypeError(
                f"{type(self).__name__} needs {', '.join(missing)} of its problem; "
                f"{type(problem).__name__} has none."
            )
        if start is not None and not self.takes_start:
            raise TypeError(f"{type(self).__name__} begins where its problem says; give no start.")
        best = _Best(self.tol, measure)
        status, reason = Status.STALLED, ""
        try:
            for iterate in self.steps(problem, start):
                record = best.take(iterate)
                asked = callback is not None and callback(record)
                if emit("solve", **record) or asked:
                    status = Status.STOPPED
                    break
                if best.converged:
                    status = Status.CONVERGED
                    break
                if best.n_iter >= self.max_iter:
                    status = Status.MAX_ITER
                    break
        except KeyboardInterrupt:
            if best.n_iter < 0 or is_all_or_nothing():
                raise
            status = Status.INTERRUPTED
        except Infeasible as proof:
            best.take(proof.iterate)
            status, reason = Status.INFEASIBLE, str(proof)
        kept, point = (None, best.primal_point) if keep is None else keep(best.primal_point)
        bounds = problem.certify(point, best.dual_point)
        if status not in (Status.INTERRUPTED, Status.INFEASIBLE):
            reason = problem.unbounded(point)
            status = Status.UNBOUNDED if reason else status
        certificate = self._judge(Certificate.from_bounds(bounds, status))
        if not (retried and certificate.status in SHORT_OF_TOL):
            self._warn(certificate, best.n_iter, reason, name or type(self).__name__)
        return SolveResult(
            point, best.dual_point, certificate, best.n_iter, best.history(), kept, best.state
        )

    def _judge(self, certificate: Certificate) -> Certificate:
        """The certificate with its status decided by gap and violation in float64 alone."""
        status = certificate.status
        if status not in (Status.CONVERGED, *SHORT_OF_TOL):
            return certificate
        short = Status.STALLED if status is Status.CONVERGED else status
        return replace(
            certificate, status=Status.CONVERGED if certificate.meets(self.tol) else short
        )

    def _warn(self, certificate: Certificate, n_iter: int, reason: str, name: str) -> None:
        """Warn unless the certificate meets ``tol``."""
        status = certificate.status
        if status is Status.CONVERGED or (status is Status.STOPPED and certificate.meets(self.tol)):
            return
        violation = (
            f" and constraints missed by {certificate.violation:.2e}"
            if certificate.violation
            else ""
        )
        cause = (
            reason or f"relative gap {certificate.relative_gap:.2e}{violation}, tol={self.tol:g}"
        )
        warn_user(
            f"{name} ended as '{status}' after {n_iter} iterations: {cause}. The best certified "
            f"point is returned; to go on, {REMEDIES.get(status, self.remedy)}.",
            ConvergenceWarning,
        )


def _has(problem, name):
    """Whether ``problem`` has the attribute ``name``, which may be one of an attribute; what
    its class would compute when asked for is not.
    """
    *path, last = name.split(".")
    for part in path:
        if not hasattr(problem, part):
            return False
        problem = getattr(problem, part)
    return hasattr(type(problem), last) or hasattr(problem, last)


class _Best:
    """Best primal and best dual point of a run, its last state, and its history."""

    def __init__(self, tol, measure=None):
        self.tol, self.n_iter = tol, -1
        self.measure, self.state = measure, None
        self.primal = self.violation = np.inf
        self.dual = -np.inf
        self.primal_point = self.dual_point = None
        self._records: list[dict[str, float]] = []
        self._began = stopwatch()

    def take(self, iterate):
        self.n_iter += 1
        self.state = iterate.state
        # points of one iterate belong together; those of several serve until one is good enough
        enough = self._within_tol(iterate, iterate.dual)
        if enough or iterate.dual > self.dual or self.dual_point is None:
            self.dual, self.dual_point = iterate.dual, iterate.dual_point
        if enough or self.primal_point is None or self._rank(iterate) < self._rank(self):
            self.primal, self.violation, self.primal_point = (
                iterate.primal,
                iterate.violation,
                iterate.primal_point,
            )
        record = {
            "iteration": self.n_iter,
            "seconds": stopwatch() - self._began,
            "primal": iterate.primal,
            "dual": iterate.dual,
            "relative_gap": relative_gap(self.primal, self.dual),
            "violation": iterate.violation,
            **iterate.extra,
            **(self.measure(iterate.primal_point) if self.measure else {}),
        }
        self._records.append(record)
        return record

    def _rank(self, candidate):
        """A point that misses its constraints by more than ``tol`` is judged by that,
        any other by its distance to the bound.
        """
        distance = abs(candidate.primal - self.dual) if self.dual > -np.inf else candidate.primal
        return max(candidate.violation, self.tol), distance

    def _within_tol(self, candidate, dual):
        gap = abs(relative_gap(candidate.primal, dual))
        return gap <= self.tol and candidate.violation <= self.tol

    @property
    def converged(self):
        return self._within_tol(self, self.dual)

    def history(self):
        names = self._records[0] if self._records else ()
        return {
            name: np.array([record.get(name, np.nan) for record in self._records]) for name in names
        }
