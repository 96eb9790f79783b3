"""What was proven about a solution: bounds on the optimum, the gap between them, and why a solve
ended. Below programs, which compute bounds, and solvers, which issue certificates.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, Self

import numpy as np

from ..core.fields import Number, Text, check, expect
from ..core.notebooks import html_table


class Status(StrEnum):
    """Why a solve ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    STALLED = "stalled"  # the algorithm can make no further progress in this precision
    TRUNCATED = "truncated"  # solved, then reduced to n_components directions
    INTERRUPTED = "interrupted"  # Ctrl-C
    STOPPED = "stopped"  # by the callback
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"  # the program is proven to have no minimum


ANY_FLOAT = Number(-sys.float_info.max, sys.float_info.max, nan=True)
CERTIFICATE_FIELDS = {
    **dict.fromkeys(("primal", "dual", "gap", "relative_gap", "violation"), ANY_FLOAT),
    "status": Text(tuple(Status)),
}
LEAST_GAP = -1e-6  # of a feasible point, relative: rounding
SAME_GAP = 1e-9  # relative difference of gaps up to rounding
SHORT_OF_TOL = (Status.STALLED, Status.MAX_ITER)


class Bounds(NamedTuple):
    """``dual <= optimum``, and a point of value ``primal`` with this relative ``violation``."""

    primal: float
    dual: float
    violation: float = 0.0


def relative_gap(primal: float, dual: float) -> float:
    """(primal - dual) / max(|primal|, |dual|): 0 if both are 0, infinite if there is no bound."""
    size = max(abs(primal), abs(dual))
    # without a bound the quotient below would be inf / inf, which is nan
    if size == np.inf:
        return np.inf
    if size == 0:
        return 0.0
    return (primal - dual) / size


@dataclass(frozen=True)
class Certificate:
    """A proof about a solution: ``dual <= optimum``, and the returned point has value ``primal``.

    Attributes
    ----------
    primal, dual : float
        Objective of the returned point; lower bound on the optimum (for a maximisation
        both change sign).
    gap, relative_gap : float
        ``primal - dual``, and that over ``max(|primal|, |dual|)``.
    violation : float
        How far the returned point misses its constraints, relative to their size; 0 if it meets
        them by construction.
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
    def from_bounds(cls, bounds: Bounds, status: Status) -> Self:
        primal = float(bounds.primal)
        dual = float(bounds.dual)
        return cls(
            primal=primal,
            dual=dual,
            gap=primal - dual,
            relative_gap=relative_gap(primal, dual),
            violation=float(bounds.violation),
            status=status,
        )

    def state(self) -> dict[str, Any]:
        """The certificate as a dict of numbers and text."""
        return {**vars(self), "status": str(self.status)}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], within: str = "certificate") -> Self:
        """The certificate of such a dict; a `FieldError` if no fit can have given it."""
        check(state, CERTIFICATE_FIELDS, within)
        bounds = Bounds(state["primal"], state["dual"], state["violation"])
        certificate = cls.from_bounds(bounds, Status(state["status"]))
        for name in ("gap", "relative_gap"):
            by_bounds = getattr(certificate, name)
            is_same = math.isclose(state[name], by_bounds, rel_tol=SAME_GAP)
            expect(is_same, f"{within}.{name}", state[name], f"{by_bounds} by its bounds")
        gap = certificate.relative_gap
        violation = bounds.violation
        expect(violation >= 0, f"{within}.violation", violation, "at least 0")
        # weak duality: only a point that misses constraints can lie below the bound
        can_be_true = violation != 0 or gap >= LEAST_GAP
        feasible = f"at least {LEAST_GAP} for a feasible point"
        expect(can_be_true, f"{within}.relative_gap", gap, feasible)
        return certificate

    def _repr_html_(self) -> str:
        figures = {name: f"{value:.6g}" for name, value in vars(self).items() if name != "status"}
        return html_table(f"Certificate: {self.status}", figures)

    @property
    def error(self) -> float:
        """The larger of relative gap and violation."""
        # a point that misses constraints slightly can lie below the bound: its gap is negative
        return max(abs(self.relative_gap), self.violation)

    def meets(self, tol: float) -> bool:
        """Whether gap and violation are within ``tol``."""
        return self.error <= tol

    def judged(self, tol: float) -> "Certificate":
        """The same, with the status that gap and violation in float64 imply."""
        status = self.status
        if status in SHORT_OF_TOL and self.meets(tol):
            status = Status.CONVERGED
        elif status is Status.CONVERGED and not self.meets(tol):
            status = Status.STALLED
        return replace(self, status=status)

    def truncated(self, primal: float, tol: float, missed: float | None = None) -> "Certificate":
        """For a truncated point of value ``primal``: the same bound, the gap including the cut."""
        if missed is None:
            missed = self.violation
        cut = Certificate.from_bounds(Bounds(primal, self.dual, missed), self.status)
        # a solve that had missed tol before the cut keeps its own status, which says why
        if self.status is Status.CONVERGED and not cut.meets(tol):
            return replace(cut, status=Status.TRUNCATED)
        return cut
