"""Losses of the margins rho = A(M), and their duals.

A loss l falls as the margin grows, and is convex. Its multiplier v = -l'(rho) says how much the
margin still matters. A program with weights c_r and multipliers u_r = c_r v_r needs, besides l, the
concave gain g(v) = -l*(-v) of the multipliers (l* the conjugate), its slope and its curvature:

    sum_r c_r l(rho_r) >= sum_r c_r g(u_r / c_r) - u'rho       for all rho and u in the domain

with equality where v = -l'(rho), that is where rho = g'(v).

    hinge           l = max(0, 1 - rho)          g = v                               0 <= v <= 1
    squared hinge   l = max(0, 1 - rho)^2 / 2    g = v - v^2 / 2                     0 <= v
    logistic        l = log(1 + exp(-rho))       g = -v log v - (1 - v) log(1 - v)   0 <= v <= 1
"""

import math
from abc import ABC, abstractmethod
from operator import itemgetter
from types import ModuleType
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from ..core.arrays import Array, DType, Pair, Values, float64, namespace
from ..core.vectors import ARRAYS, Reduction, VectorSpace

LARGEST_MARGIN = 80.0  # beyond, logistic multipliers are zero in any sum, and float32 overflows


class Loss(ABC):
    """A convex, falling loss of one margin; see the module docstring."""

    largest: ClassVar[float]  # the upper end of the domain of v
    linear: ClassVar[bool] = False  # whether g(v) = v
    steep: ClassVar[bool] = False  # whether the slope of g is infinite at the ends of the domain

    @abstractmethod
    def value(self, margins: Array) -> Array:
        """l(rho), elementwise."""

    @abstractmethod
    def multiplier(self, margins: Array) -> Array:
        """v = -l'(rho), elementwise."""

    @abstractmethod
    def gain(self, v: Array) -> Array:
        """g(v), elementwise."""

    @abstractmethod
    def slope(self, v: Array) -> Array:
        """g'(v), elementwise."""

    @abstractmethod
    def curvature(self, v: Array) -> Array:
        """-g''(v) >= 0, elementwise."""

    def value_and_multiplier(self, margins: Array) -> Pair:
        """l and v, elementwise."""
        return self.value(margins), self.multiplier(margins)

    def slope_and_bend(self, margins: Array, change: Array, weights: Values, t: float) -> Pair:
        """First and second derivative of the sum of w l at ``margins + t change`` by t."""
        v = self.multiplier(margins + t * change)
        weighted = weights * change
        # rho = g'(v), so that l''(rho) = -dv/drho = -1 / g''(v) inside the domain; at its ends v stays
        inside = (v > 0) & (v < self.largest)
        bends = inside * change * weighted / self.curvature(v)
        return -(v * weighted).sum(), bends.sum()

    def evaluate(
        self, margins: Array, space: VectorSpace = ARRAYS, weights: Values = 1.0
    ) -> tuple[float, Array, float]:
        """(sum of w l, u, u'margins) with u = w v(margins); w is one number, or one per margin."""
        pair = space.map(self._weighted, margins, weights)
        loss, captured = space.sum(_loss_and_captured, pair, margins)
        return loss, space.map(itemgetter(1), pair), captured

    def _weighted(self, margins: Array, weights: Values) -> Pair:
        value, v = self.value_and_multiplier(margins)
        if _is_one(weights):
            return value, v
        return weights * value, weights * v

    def along(
        self, margins: Array, change: Array, t: float, space: VectorSpace = ARRAYS, w: Values = 1.0
    ) -> tuple[float, float]:
        """First and second derivative of the sum of w l at ``margins + t change`` by t."""
        return space.sum(self.slope_and_bend, margins, change, w, t=t)

    def domain(self, dtype: DType, xp: ModuleType = np) -> tuple[float, float]:
        """Ends of the domain of v, moved inwards by a rounding if the slope is infinite there."""
        inside = float(xp.finfo(dtype).eps) if self.steep else 0.0
        return inside, self.largest - inside

    def best_multiple(self, C: float, curvature: float) -> float:
        """The t in the domain that maximises C g(t) - curvature t^2 / 2."""
        low, high = self.domain(np.float64)
        # g grows no faster than v beyond 1
        high = min(high, 1.0 + C / curvature)

        def rise(t: float) -> float:
            return C * float(self.slope(np.float64(t))) - curvature * t

        if rise(low) <= 0:
            return low
        if rise(high) >= 0:
            return high
        return float(brentq(rise, low, high))


class Hinge(Loss):
    largest = 1.0
    linear = True

    def value(self, margins: Array) -> Array:
        return namespace(margins).clip(1 - margins, 0, None)

    def multiplier(self, margins: Array) -> Array:
        return namespace(margins).where(margins < 1, margins * 0 + 1, margins * 0)

    def gain(self, v: Array) -> Array:
        return v

    def slope(self, v: Array) -> Array:
        return v * 0 + 1

    def curvature(self, v: Array) -> Array:
        return v * 0

    def best_multiple(self, C: float, curvature: float) -> float:
        return min(1.0, C / curvature)


class SquaredHinge(Loss):
    largest = np.inf

    def value(self, margins: Array) -> Array:
        return 0.5 * self.multiplier(margins) ** 2

    def multiplier(self, margins: Array) -> Array:
        return namespace(margins).clip(1 - margins, 0, None)

    def gain(self, v: Array) -> Array:
        return v - 0.5 * v * v

    def slope(self, v: Array) -> Array:
        return 1 - v

    def curvature(self, v: Array) -> Array:
        return v * 0 + 1


class Logistic(Loss):
    largest = 1.0
    steep = True

    def value(self, margins: Array) -> Array:
        return namespace(margins).logaddexp(margins * 0, -margins)

    def multiplier(self, margins: Array) -> Array:
        xp = namespace(margins)
        return 1 / (1 + xp.exp(xp.clip(margins, None, LARGEST_MARGIN)))

    def value_and_multiplier(self, margins: Array) -> Pair:
        loss = self.value(margins)
        # 1 / (1 + e^rho) = e^-rho / (1 + e^-rho) = exp(-rho - l): never overflows
        return loss, namespace(margins).exp(-margins - loss)

    def slope_and_bend(self, margins: Array, change: Array, weights: Values, t: float) -> Pair:
        v = self.multiplier(margins + t * change)
        weighted = v * change
        if not _is_one(weights):
            weighted = weights * v * change
        # l'' = v (1 - v)
        return -weighted.sum(), ((1 - v) * weighted) @ change

    def gain(self, v: Array) -> Array:
        return _entropy(v) + _entropy(1 - v)

    def slope(self, v: Array) -> Array:
        xp = namespace(v)
        return xp.log1p(-v) - xp.log(v)

    def curvature(self, v: Array) -> Array:
        return 1 / (v * (1 - v))


class LogSumExp:
    """log sum_r w_r exp(-rho_r): not a sum of losses, but boosting can use it like one."""

    def evaluate(
        self, margins: Array, space: VectorSpace = ARRAYS, weights: Values = 1.0
    ) -> tuple[float, Array, float]:
        powers = space.map(_powers, _less_log(margins, weights, space))
        requested = Reduction(_sums_of_powers, (powers, margins), join=_join_scaled)
        ((shift, total, captured),) = space.totals(requested)
        u = space.map(_normalised, powers, shift=shift, total=total)
        return shift + np.log(total), u, captured / total

    def along(
        self, margins: Array, change: Array, t: float, space: VectorSpace = ARRAYS, w: Values = 1.0
    ) -> tuple[float, float]:
        margins = _less_log(margins, w, space)
        requested = Reduction(_moments, (margins, change), {"t": t}, _join_scaled)
        ((_, total, first, second),) = space.totals(requested)
        # derivatives of log sum exp: minus the mean of `change` under the weights u; its variance
        mean = first / total
        return -mean, second / total - mean**2


def _is_one(weights: Values) -> bool:
    """Whether the margins have no weights, so that no pass over them is needed to apply these."""
    return isinstance(weights, float) and weights == 1.0


def _loss_and_captured(pair: Pair, margins: Array) -> Pair:
    loss, u = pair
    return _sum(loss), _sum(u * margins)


def _less_log(margins: Array, weights: Values, space: VectorSpace) -> Array:
    """rho - log w, with w exp(-rho) the exponential of its negative."""
    if isinstance(weights, float):
        return margins
    return space.map(_minus_log, margins, weights)


def _minus_log(margins: Array, weights: Array) -> Array:
    return margins - namespace(weights).log(weights)


def _powers(margins: Array) -> Pair:
    """exp(-rho - shift), with the shift that makes the largest one."""
    shift = -margins.min()
    return namespace(margins).exp(-margins - shift), shift


def _sums_of_powers(powers: Pair, margins: Array) -> tuple[Array, ...]:
    power, shift = powers
    return float64(shift), _sum(power), _sum(power * margins)


def _normalised(powers: Pair, shift: float, total: float) -> Array:
    power, own = powers
    return power * (math.exp(float(own) - shift) / total)


def _moments(margins: Array, change: Array, t: float) -> tuple[Array, ...]:
    exponent = -margins - t * change
    shift = exponent.max()
    power = namespace(margins).exp(exponent - shift)
    weighted = power * change
    return shift, power.sum(), weighted.sum(), weighted @ change


def _join_scaled(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
    """The sum of (shift, sums in units of exp(shift)) of two blocks."""
    shift = max(a[0], b[0])
    scale_a = math.exp(a[0] - shift)
    scale_b = math.exp(b[0] - shift)
    sums = [scale_a * x + scale_b * y for x, y in zip(a[1:], b[1:], strict=True)]
    return shift, *sums


def _sum(values: Array) -> Array:
    return values.sum(dtype=namespace(values).float64)


def _entropy(v: Array) -> Array:
    """-v log v, 0 at 0."""
    xp = namespace(v)
    return -v * xp.log(xp.where(v > 0, v, xp.ones_like(v)))


LOSSES: dict[str, Loss] = {
    "hinge": Hinge(),
    "squared_hinge": SquaredHinge(),
    "logistic": Logistic(),
}


def weighted_sum(values: Array, weights: Values = 1.0) -> Array:
    """Sum of ``weights * values``, in float64; ``weights`` is one number or one per value."""
    if isinstance(weights, float):
        return weights * _sum(values)
    return _sum(weights * values)
