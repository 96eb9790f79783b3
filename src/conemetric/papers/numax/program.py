"""Minimum-trace near-isometry (Hegde et al. 2015, programs 4 and 7).

    P(P) = Tr P                     s.t.  lower_s <= v_s' P v_s <= upper_s for every unit secant v_s,  P psd
    D(y) = lower'y_+ - upper'y_-    s.t.  A*(y) <= I (as matrices),   y_+ and y_- the positive and negative part of y
    P - D = <P, I - A*(y)> + y_+'(A(P) - lower) + y_-'(upper - A(P)) >= 0

Plain: the bounds are 1 -+ delta on all secants. With classes: secants between points of one class
are bounded above only, the others below only (so y <= 0 and y >= 0 there). P = I meets every bound,
so the program is never infeasible.

A y that misses A*(y) <= I is divided by the largest eigenvalue of A*(y), which makes it feasible:
any y gives a bound. The violation is how far v'Pv is outside its bounds, in units of delta.
"""

from typing import Any, NamedTuple

from ...core.arrays import Array, DType, float64, like
from ...engine.certificate import Bounds
from ...engine.program import Point, Problem
from .secants import SecantOperator, Secants


class NearIsometryProgram(Problem):
    """The program over a list of secants; missing bounds are infinite, violations in ``delta``."""

    def __init__(self, operator: SecantOperator, lower: Array, upper: Array, delta: float):
        self.operator = operator
        self.lower = lower
        self.upper = upper
        self.delta = float(delta)
        self.has_lower = operator.xp.isfinite(lower)
        self.has_upper = operator.xp.isfinite(upper)

    def project(self, y: Array) -> Array:
        """y without multipliers on bounds that do not exist."""
        xp = self.operator.xp
        least = xp.where(self.has_upper, -xp.inf, 0.0)
        most = xp.where(self.has_lower, xp.inf, 0.0)
        return xp.clip(y, least, most)

    def excess(self, values: Array) -> Array:
        """Largest distance of ``values`` outside the bounds in units of delta, or 0 (0-d array)."""
        return self.operator.xp.clip(-self.slack(values).min(), 0, None) / self.delta

    def slack(self, values: Array) -> Array:
        """Distance of A(P) = ``values`` from the nearer bound, negative outside."""
        return self.operator.xp.minimum(values - self.lower, self.upper - values)

    def bound(self, y: Array) -> float:
        """Lower bound on the optimum from any y: D(y / lambda_max(A*(y))), or 0 if negative."""
        xp = self.operator.xp
        y = self.project(y)
        # nested, so that an infinite bound is never multiplied by a zero, which would be nan
        value = xp.where(y > 0, self.lower, xp.where(y < 0, self.upper, 0.0)) @ y
        # D of a multiple of y is that multiple of D(y), and y = 0 gives the bound 0
        largest = xp.linalg.eigvalsh(self.operator.adjoint(y))[-1]
        return float(value / largest) if value > 0 else 0.0

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        exact = self.exact
        L = float64(primal_point)
        violation = float(exact.excess(exact.operator.forward_factor(L)))
        return Bounds(float((L * L).sum()), exact.bound(float64(dual_point)), violation)


class Multipliers(NamedTuple):
    """A dual point of `SecantIsometryProgram`: keys of secants, multipliers; the rest are 0."""

    keys: Array
    values: Array


class SecantIsometryProgram(Problem):
    """The program over a complete set of secants, which only scans visit."""

    def __init__(self, secants: Secants, delta: float):
        self.secants = secants
        self.delta = float(delta)

    @property
    def dense_work(self) -> float:
        """Of a scan, which multiplies all points with each other. Each restricted program has its own."""
        return float(self.secants.n_points) ** 2 * self.secants.n_features

    def restrict(self, keys: Array, dtype: DType = None, margin: float = 0) -> NearIsometryProgram:
        """The program over these secants alone, its bounds tighter by ``margin`` * delta."""
        operator = self.secants.operator(keys, dtype)
        lower, upper = self.secants.bounds(keys, self.delta * (1 - margin))
        return NearIsometryProgram(
            operator, like(lower, operator.V), like(upper, operator.V), self.delta
        )

    def certify(self, primal_point: Array, dual_point: Any) -> Bounds:
        """Bounds from a scan of every secant in float64, and from multipliers on any of them."""
        float64_type = self.secants.xp.float64
        L = float64(primal_point)
        scan = self.secants.scan(L, self.delta, dtype=float64_type)
        restricted = self.restrict(dual_point.keys, float64_type)
        dual = restricted.bound(float64(dual_point.values))
        return Bounds(float((L * L).sum()), dual, scan.worst)
