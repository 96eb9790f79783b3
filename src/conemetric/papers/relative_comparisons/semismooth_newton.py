"""Semismooth Newton steps on the augmented Lagrangian of the relative-comparison program.

    phi(w) = 1/2 w'Lw + sum_i max over 0 <= lam <= c_i of (lam s_i - (lam - a_i)^2 / (2 sigma)),   w >= 0

with multipliers a for the margins s = 1 - Zw. The steps are numbered as in docs/mathematics:

    1.  lam = clip(a + sigma s, 0, c) attains phi(w), whose gradient is g = Lw - Z'lam.
    2.  P(w) and D(lam, y) are bounds, with y = w raised until Ly >= Z'lam.
    3.  If the gap is mostly due to the multipliers, a becomes lam and sigma grows.
    4.  Else v >= 0 minimises the model  g'(v - w) + 1/2 (v - w)'H(v - w)  with
        H = L + sigma Z_F'Z_F,  F the triplets with lam strictly inside,
    5.  and w moves towards v, until phi has nearly stopped falling.

Stops when (P - D) / max(|P|, |D|) <= tol. L may be singular: it is never inverted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from ...core.arrays import Array, Pair
from ...engine.solver import Iterate, Solver, Steps
from .program import ComparisonProgram

MAX_STEP_RATIO = 5.0  # the steps' part of the gap that is small enough, over the multipliers' part
GROWTH = 10.0  # of sigma, each time the multipliers are updated
LARGEST = 1e8  # sigma / mean of c beyond which the Hessian has no digits left for L
PATIENCE = 50  # steps without a better bound after which only rounding is left
RIDGE = 1e-14  # times the number of weights: the rounding of a Hessian whose diagonal is 1
MAX_CHANGES = 10  # of the weights that are zero, per weight, while a model is minimised
ACCURACY = 0.3  # slope at which a line search ends, relative to the first
MAX_TRIALS = 100  # of a line search, which takes a few

Slope = Callable[[float], tuple[float, float]]  # of a step's length: slope and curvature of phi


@dataclass(frozen=True)
class SemismoothNewton(Solver):
    """See the module docstring; ``start`` is a pair (multipliers, weights)."""

    solves = ComparisonProgram

    def steps(self, problem: ComparisonProgram, start: Pair | None) -> Steps:
        c = problem.penalties
        if start is None:
            start = np.zeros(len(c)), np.zeros(len(problem.diagonal))
        a, w = start
        s = 1 - problem.margins(w)
        # what the start is worth: the first step replaces its multipliers
        primal = problem.primal_value(w, problem.loss(1 - s))
        yield Iterate(primal, problem.lower_bound(start), w, start, extra={"steps": 0})
        phi = AugmentedLagrangian(problem, a, float(c.mean()))
        largest_sigma = LARGEST * phi.sigma
        best_primal = np.inf
        best_dual = -np.inf
        idle = 0  # steps since a bound was last improved
        for n_steps in count():
            # 1. The multipliers that attain phi(w).
            lam = phi.multipliers(s)
            combined = problem.combine(lam)

            # 2. Bounds.
            y = problem.cover(w, combined)
            loss = problem.loss(1 - s)
            primal = problem.primal_value(w, loss)
            dual = problem.dual_value(lam.sum(), y)
            yield Iterate(primal, dual, w, (lam, y), extra={"steps": n_steps})
            idle += 1
            if primal < best_primal or dual > best_dual:
                idle = 0
            if idle >= PATIENCE:
                return
            best_primal = min(primal, best_primal)
            best_dual = max(dual, best_dual)

            # 3. What the gap is due to.
            of_multipliers = loss - float(lam @ s)
            of_steps = primal - dual - of_multipliers
            step = None
            if of_steps > MAX_STEP_RATIO * of_multipliers:
                # 4 and 5. The minimum of the model, and how far to go there.
                step = phi.step(w, s, lam, problem.weigh(w) - combined)
            if step is None:  # there is nothing left to gain with these multipliers
                phi = replace(phi, a=lam, sigma=min(GROWTH * phi.sigma, largest_sigma))
            else:
                w = w + step.w
                s = s + step.s


class Step(NamedTuple):
    """Changes of the weights w and of s = 1 - Zw."""

    w: Array
    s: Array


@dataclass(frozen=True)
class AugmentedLagrangian:
    """phi, for multipliers a and a sigma."""

    problem: ComparisonProgram
    a: Array
    sigma: float

    def multipliers(self, s: Array) -> Array:
        """The lam that attain phi, given s = 1 - Zw."""
        return np.clip(self.a + self.sigma * s, 0.0, self.problem.penalties)

    def step(self, w: Array, s: Array, lam: Array, gradient: Array) -> Step | None:
        """Return the step towards the minimum of the model at w, if phi falls along it."""
        d = self.model_minimum(w, gradient, lam) - w
        ds = -self.problem.margins(d)
        length = step_length(self.slope_along(w, d, s, ds), float(gradient @ d))
        if not length > 0:
            return None
        return Step(length * d, length * ds)

    def model_minimum(self, w: Array, gradient: Array, lam: Array) -> Array:
        """The v >= 0 that minimises the model of phi at w. Weights that are zero and would fall
        stay: they are taken up in a later step, if their gradient changes its sign.

        With H = R'R and unit diagonals, the model is |R(v - w) + R'^-1 g|^2 / 2: nonnegative least
        squares. The ridge keeps H definite where columns of A repeat; its centre is w, so that v
        stays a descent, and w the minimum where it is one.
        """
        problem = self.problem
        columns = np.flatnonzero((w > 0) | (gradient < 0))
        if len(columns) == 0:
            return w
        inside = (lam > 0) & (lam < problem.penalties)
        H = problem.L[np.ix_(columns, columns)] + self.sigma * problem.gram(inside, columns)
        units = np.sqrt(H.diagonal())
        # a unit diagonal, to which the ridge is relative
        H /= np.outer(units, units)
        H[np.diag_indices_from(H)] += RIDGE * len(H)
        R = cholesky(H, check_finite=False)
        now = units * w[columns]
        aim = R @ now - solve_triangular(R, gradient[columns] / units, trans="T")
        v = np.zeros_like(w)
        try:
            v[columns] = nnls(R, aim, maxiter=MAX_CHANGES * len(H))[0] / units
        except RuntimeError:  # it has not ended: the multipliers move on instead
            return w
        return v

    def slope_along(self, w: Array, d: Array, s: Array, ds: Array) -> Slope:
        """The slope of phi at w + t d as a function of t, where s changes by t ds, and its own."""
        weighed = self.problem.weigh(d)
        linear = float(w @ weighed)
        quadratic = float(d @ weighed)

        def slope(t: float) -> tuple[float, float]:
            moved = s + t * ds
            lam = self.multipliers(moved)
            # triplets strictly inside the box, F: only their lam changes with t, by sigma ds
            moving = ds[lam == self.a + self.sigma * moved]
            curvature = quadratic + self.sigma * float(moving @ moving)
            # lam attains the maxima in phi, so that its own change does not count in the slope
            return linear + t * quadratic + float(lam @ ds), curvature

        return slope


def step_length(slope: Slope, first: float) -> float:
    """Where on (0, 1] an increasing ``slope``, which is ``first`` at 0, has nearly risen to zero;
    0 if it is not negative there. By Newton's method inside a bracket.
    """
    if not first < 0:
        return 0.0
    low = 0.0
    high = 1.0
    t = 1.0
    for _ in range(MAX_TRIALS):
        value, curvature = slope(t)
        still_falls_at_the_end = t == 1.0 and value < 0
        if still_falls_at_the_end or abs(value) <= ACCURACY * abs(first):
            break
        if value < 0:
            low = t
        else:
            high = t
        t -= value / curvature
        if not low < t < high:
            t = 0.5 * (low + high)
    return t
