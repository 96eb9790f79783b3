"""Losses of the margins rho = A(M), and their duals.

A loss l falls as the margin grows, and is convex. Its multiplier v = -l'(rho) says how much the
margin still matters. A program with weights c_r and multipliers u_r = c_r v_r needs, besides l, the
concave gain g(v) = -l*(-v) of the multipliers (l* the conjugate), its slope and its curvature:

    sum_r c_r l(rho_r) >= sum_r c_r g(u_r / c_r) - u'rho       for all rho and u in the domain

with equality where v = -l'(rho), that is where rho = g'(v).

    hinge           l = max(0, 1 - rho)          g = v                               0 <= v <= 1
    squared hinge   l = max(0, 1 - rho)^2 / 2    g = v - v^2 / 2                     0 <= v
    logistic        l = log(1 + exp(-rho))       g = -v log v - (1 - v) log(1 - v)   0 <= v <= 1
    exponential     l = exp(-rho)                g = v - v log v                     0 <= v
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq

from ..core.arrays import float64, is_scalar, namespace
from ..core.vectors import ARRAYS, Total, VectorSpace

LARGEST_MARGIN = 80.0  # beyond, logistic multipliers are zero in any sum, and float32 overflows


class Loss(ABC):
    """A convex, falling loss of one margin; see the module docstring."""

    largest: ClassVar[float]  # the upper end of the domain of v
    linear: ClassVar[bool] = False  # whether g(v) = v
    steep: ClassVar[bool] = False  # whether the slope of g is infinite at the ends of the domain

    @abstractmethod
    def value(self, margins: Any) -> Any:
        """l(rho), elementwise."""

    @abstractmethod
    def multiplier(self, margins: Any) -> Any:
        """v = -l'(rho), elementwise."""

    @abstractmethod
    def gain(self, v: Any) -> Any:
        """g(v), elementwise."""

    @abstractmethod
    def slope(self, v: Any) -> Any:
        """g'(v), elementwise."""

    @abstractmethod
    def curvature(self, v: Any) -> Any:
        """-g''(v) >= 0, elementwise."""

    def value_and_multiplier(self, margins: Any) -> tuple[Any, Any]:
        """l and v, elementwise."""
        return self.value(margins), self.multiplier(margins)

    def slope_and_bend(self, margins: Any, change: Any, weights: Any, t: float) -> tuple[Any, Any]:
        """First and second derivative of the sum of w l at ``margins + t change`` by t."""
        v = self.multiplier(margins + t * change)
        weighted = weights * change
        return -(v * weighted).sum(), (change * weighted / self.curvature(v)).sum()

    def evaluate(
        self, margins: Any, space: VectorSpace = ARRAYS, weights: Any = 1.0
    ) -> tuple[float, Any, float]:
        """(sum of w l, u, u'margins) with u = w v(margins); w is one number, or one per margin."""
        pair = space.map(self._weighted, margins, weights)
        loss, captured = space.sum(_loss_and_captured, pair, margins)
        return loss, space.map(_second, pair), captured

    def _weighted(self, margins, weights):
        value, v = self.value_and_multiplier(margins)
        return (value, v) if is_scalar(weights) else (weights * value, weights * v)

    def along(
        self, margins: Any, change: Any, t: float, space: VectorSpace = ARRAYS, weights: Any = 1.0
    ) -> tuple[float, float]:
        """First and second derivative of the sum of w l at ``margins + t change`` by t."""
        return space.sum(self.slope_and_bend, margins, change, weights, t=t)

    def domain(self, dtype: Any, xp: Any = np) -> tuple[float, float]:
        """Ends of the domain of v, moved inwards by a rounding if the slope is infinite there."""
        inside = float(xp.finfo(dtype).eps) if self.steep else 0.0
        return inside, self.largest - inside

    def best_multiple(self, C: float, curvature: float) -> float:
        """The t in the domain that maximises C g(t) - curvature t^2 / 2."""
        low, high = self.domain(np.float64)
        high = min(high, 1.0 + C / curvature)  # g grows no faster than v beyond 1

        def rise(t):
            return C * float(self.slope(np.float64(t))) - curvature * t

        if rise(low) <= 0 or rise(high) >= 0:
            return low if rise(low) <= 0 else high
        return float(brentq(rise, low, high))


class Hinge(Loss):
    largest = 1.0
    linear = True

    def value(self, margins: Any) -> Any:
        return namespace(margins).clip(1 - margins, 0, None)

    def multiplier(self, margins: Any) -> Any:
        return namespace(margins).where(margins < 1, margins * 0 + 1, margins * 0)

    def gain(self, v: Any) -> Any:
        return v

    def slope(self, v: Any) -> Any:
        return v * 0 + 1

    def curvature(self, v: Any) -> Any:
        return v * 0

    def best_multiple(self, C: float, curvature: float) -> float:
        return min(1.0, C / curvature)


class SquaredHinge(Loss):
    largest = np.inf

    def value(self, margins: Any) -> Any:
        return 0.5 * self.multiplier(margins) ** 2

    def multiplier(self, margins: Any) -> Any:
        return namespace(margins).clip(1 - margins, 0, None)

    def gain(self, v: Any) -> Any:
        return v - 0.5 * v * v

    def slope(self, v: Any) -> Any:
        return 1 - v

    def curvature(self, v: Any) -> Any:
        return v * 0 + 1


class Logistic(Loss):
    largest = 1.0
    steep = True

    def value(self, margins: Any) -> Any:
        return namespace(margins).logaddexp(margins * 0, -margins)

    def multiplier(self, margins: Any) -> Any:
        xp = namespace(margins)
        return 1 / (1 + xp.exp(xp.clip(margins, None, LARGEST_MARGIN)))

    def value_and_multiplier(self, margins: Any) -> tuple[Any, Any]:
        loss = self.value(margins)
        return loss, namespace(margins).exp(-margins - loss)

    def slope_and_bend(self, margins: Any, change: Any, weights: Any, t: float) -> tuple[Any, Any]:
        v = self.multiplier(margins + t * change)
        weighted = v * change if is_scalar(weights) else weights * v * change
        return -weighted.sum(), ((1 - v) * weighted) @ change

    def gain(self, v: Any) -> Any:
        return _entropy(v) + _entropy(1 - v)

    def slope(self, v: Any) -> Any:
        xp = namespace(v)
        return xp.log1p(-v) - xp.log(v)

    def curvature(self, v: Any) -> Any:
        return 1 / (v * (1 - v))


class LogSumExp:
    """log sum_r w_r exp(-rho_r): not a sum of losses, but boosting can use it like one."""

    def evaluate(
        self, margins: Any, space: Any = ARRAYS, weights: Any = 1.0
    ) -> tuple[float, Any, float]:
        powers = space.map(_powers, _less_log(margins, weights, space))
        requested = Total(_sums_of_powers, (powers, margins), join=_join_scaled)
        ((shift, total, captured),) = space.totals(requested)
        u = space.map(_normalised, powers, shift=shift, total=total)
        return shift + np.log(total), u, captured / total

    def along(
        self, margins: Any, change: Any, t: float, space: Any = ARRAYS, weights: Any = 1.0
    ) -> tuple[float, float]:
        margins = _less_log(margins, weights, space)
        requested = Total(_moments, (margins, change), {"t": t}, _join_scaled)
        ((_, total, first, second),) = space.totals(requested)
        mean = first / total
        return -mean, second / total - mean**2


def _loss_and_captured(pair, margins):
    loss, u = pair
    return _sum(loss), _sum(u * margins)


def _second(pair):
    return pair[1]


def _less_log(margins, weights, space):
    """rho - log w, with w exp(-rho) the exponential of its negative."""
    return margins if is_scalar(weights) else space.map(_minus_log, margins, weights)


def _minus_log(margins, weights):
    return margins - namespace(weights).log(weights)


def _powers(margins):
    """exp(-rho - shift), with the shift that makes the largest one."""
    shift = -margins.min()
    return namespace(margins).exp(-margins - shift), shift


def _sums_of_powers(powers, margins):
    power, shift = powers
    return float64(shift), _sum(power), _sum(power * margins)


def _normalised(powers, shift, total):
    power, own = powers
    return power * (math.exp(float(own) - shift) / total)


def _moments(margins, change, t):
    exponent = -margins - t * change
    shift = exponent.max()
    power = namespace(margins).exp(exponent - shift)
    weighted = power * change
    return shift, power.sum(), weighted.sum(), weighted @ change


def _join_scaled(a, b):
    """The sum of (shift, sums in units of exp(shift)) of two blocks."""
    shift = max(a[0], b[0])
    scale_a, scale_b = math.exp(a[0] - shift), math.exp(b[0] - shift)
    sums = (scale_a * x + scale_b * y for x, y in zip(a[1:], b[1:], strict=True))
    return shift, *sums


def _sum(values):
    return values.sum(dtype=namespace(values).float64)


def _entropy(v):
    """-v log v, 0 at 0."""
    xp = namespace(v)
    return -v * xp.log(xp.where(v > 0, v, xp.ones_like(v)))


LOSSES: dict[str, Loss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
}


def weighted_sum(values: Any, weights: Any = 1.0) -> Any:
    """Sum of ``weights * values``, in float64; ``weights`` is one number or one per value."""
    if is_scalar(weights):
        return weights * _sum(values)
    return _sum(weights * values)
