"""Smooth loss plus trace: the BoostMetric programs (Shen et al. 2012, eqs. 11, 18, 25, 26;
docs/mathematics).

    P(M) = loss(A(M)) + v Tr M,   M psd        D(u) = -loss*(-u),   A*(u) <= v I        u(rho) = -grad loss(rho)

v keeps the scale of the paper: the same v regularises the logistic program, a sum, about m times
less. A triplet of weight w_r counts as w_r triplets. For a sum of losses `certify` returns D(s u), u
scaled until it is feasible: a bound for every metric. The exponential program, whose u is in the
simplex, has the Frank-Wolfe bound as dual value, and what u misses its constraint by as violation. If
that is above `MAX_EXCESS` it says nothing about larger metrics, and the dual value is minus infinity.
"""

import numpy as np
from scipy import optimize

from ...core import spectral
from ...core.arrays import Array, Pair, Values, float64, like, namespace
from ...core.vectors import greatest, minus_least, total
from ...engine.certificate import Bounds
from ...engine.losses import LogSumExp, Loss, weighted_sum
from ...engine.operators.base import Operator
from ...engine.program import Point, Problem

MARGIN_LIMIT = 1e4  # largest change of a margin by one weight: steps end here without a minimum
MAX_EXCESS = 0.1  # relative excess of lambda_max(A*(u)) over v above which there is no bound
INNER = {"maxcor": 30, "maxiter": 100}  # of L-BFGS-B, which starts from the last weights


class TraceProgram(Problem):
    """Smooth ``loss`` (a Loss, or LogSumExp) of the margins A(M) plus v times the trace of M; see
    the module docstring. ``operator`` has one row per triplet, ``weights`` are w > 0 (None: ones).
    """

    def __init__(
        self, operator: Operator, v: float, loss: Loss | LogSumExp, weights: Array | None = None
    ):
        self.operator = operator
        self.v = float(v)
        self.loss = loss
        self.weights: Values = 1.0
        if weights is not None:
            self.weights = operator.constraint_vector(weights)

    def evaluate(self, margins: Array) -> tuple[float, Array, float]:
        """(loss, u, u'margins) at given margins, without overflow at any scale."""
        return self.loss.evaluate(margins, self.operator.space, self.weights)

    def slope(self, margins: Array, change: Array, weight: float) -> tuple[float, float]:
        """First and second derivative of the loss at ``margins + t change``, t = ``weight``."""
        return self.loss.along(margins, change, weight, self.operator.space, self.weights)

    def bounds(self, loss: float, captured: float, trace: float, leading: float) -> Bounds:
        """`Bounds` from the loss, captured = u'A(M), trace = Tr M and leading = lambda_max(A*(u))."""
        primal = loss + self.v * trace
        excess = max(0.0, leading - self.v)
        # the Frank-Wolfe gap over metrics of no larger trace, v Tr M - u'A(M) + Tr M max(0, lambda_max - v)
        dual = primal - (self.v * trace - captured) - trace * excess
        return Bounds(primal, dual, excess / self.v)

    @property
    def additive(self) -> bool:
        """Whether the loss is a sum over constraints, so that any u can be scaled until feasible."""
        return isinstance(self.loss, Loss)

    def lower_bound(self, u: Array, leading: float) -> float:
        """D of u, scaled until lambda_max(A*(u)) = ``leading`` is at most v."""
        scale = self._feasible_scale(leading)
        return self.operator.space.sum(_scaled_gain, u, self.weights, loss=self.loss, scale=scale)

    def chord_bound(self, loss: float, captured: float, leading: float) -> float:
        """A bound below `lower_bound` at the multipliers of the margins, without another visit to
        them: sum w g = loss + captured, and g(s v) >= s g(v) as g is concave and g(0) = 0.
        """
        return self._feasible_scale(leading) * (loss + captured)

    def _feasible_scale(self, leading: float) -> float:
        """The largest factor up to 1 that makes u feasible, given lambda_max(A*(u))."""
        return self.v / leading if leading > self.v else 1.0

    def certify(self, primal_point: Array, dual_point: Point = None) -> Bounds:
        """Bounds at M = L L', L = ``primal_point``, and at given multipliers or at those of M."""
        exact = self.exact
        L = float64(primal_point)
        loss, u, captured = exact.evaluate(exact.operator.forward_factor(L))
        if dual_point is not None and self.additive:
            u = exact.operator.space.map(float64, dual_point)
        leading, _ = spectral.leading_eigenpair(exact.operator.precise_adjoint(u))
        bounds = self.bounds(loss, captured, float((L * L).sum()), leading)
        if self.additive:
            return Bounds(bounds.primal, exact.lower_bound(u, leading))
        if bounds.violation > MAX_EXCESS:
            return bounds._replace(dual=-np.inf)
        return bounds

    def unbounded(self, primal_point: Array) -> str:
        if self.additive:
            return ""
        exact = self.exact
        L = float64(primal_point)
        smallest = -exact.operator.space.max(minus_least, exact.operator.forward_factor(L))
        # log sum exp(-t rho) <= log m - t min rho, so that t M has no minimum over t
        if not smallest > self.v * float((L * L).sum()) > 0:
            return ""
        return (
            "the program has no minimum, because its triplets can be met with a margin above v "
            "per unit of trace, and the objective falls without bound as the metric grows"
        )

    def restricted(self, H: Array, weights: np.ndarray, tol: float) -> np.ndarray:
        """Weights w >= 0 that minimise the program over M = sum_j w_j z_j z_j', given the margins
        H[j] of each z_j z_j', one row each: L-BFGS-B from ``weights`` to slopes of ``tol``.
        """
        operator = self.operator
        space = operator.space
        squares, most = space.totals(total(_row_squares, H), greatest(_row_largest, H))
        # weights in units that give every learner margins of size one
        unit = (squares / operator.n_constraints) ** -0.5
        largest = MARGIN_LIMIT / (most * unit)

        def evaluate(w: np.ndarray) -> tuple[float, np.ndarray, float]:
            """Return the loss at weights w, the products of u with the margins, and the sum of u."""
            loss, u, _ = self.evaluate(space.map(combined_rows, H, weights=w))
            slopes, sum_ = space.sum(_row_products, H, u)
            return loss, slopes, sum_

        start = np.minimum(weights / unit, largest)
        # curvature scales with the sum of u, and the first step of L-BFGS-B is 1
        size = evaluate(start * unit)[2]

        def program(x: np.ndarray) -> tuple[float, np.ndarray]:
            """Return the program and its gradient at weights x * unit, over the sum of u."""
            w = x * unit
            loss, slopes, _ = evaluate(w)
            return (loss + self.v * w.sum()) / size, (self.v - slopes) * unit / size

        # the slope of x_j is that of w_j times unit_j / size: gtol is tol for the smallest unit
        found = optimize.minimize(
            program,
            start,
            method="L-BFGS-B",
            jac=True,
            bounds=optimize.Bounds(0.0, largest),
            options={**INNER, "ftol": operator.eps, "gtol": tol * unit.min() / size},
        )
        return found.x * unit


# ---- functions mapped and summed over blocks of margins


def _scaled_gain(u: Array, weights: Values, loss: Loss, scale: float) -> Array:
    """sum_r w_r g(v_r), with v = scale u / w: the dual value of scaled multipliers."""
    v = namespace(u).clip(scale * u / weights, 0.0, loss.largest)
    return weighted_sum(loss.gain(v), weights)


def combined_rows(H: Array, weights: np.ndarray) -> Array:
    """sum_j w_j H[j]."""
    return like(weights, H) @ H


def _row_squares(H: Array) -> Array:
    return (H * H).sum(1, dtype=namespace(H).float64)


def _row_largest(H: Array) -> Array:
    if isinstance(H, np.ndarray):
        return abs(H).max(1)
    return H.abs().amax(1)


def _row_products(H: Array, u: Array) -> Pair:
    """H u, and the sum of u."""
    return H @ u, u.sum()
