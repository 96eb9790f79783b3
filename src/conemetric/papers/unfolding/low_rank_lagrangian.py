"""Augmented Lagrangian on a low-rank factor, for semidefinite programs with solutions of low rank
(Burer & Monteiro 2003).

    P(X) = <C, X> + ||X||_F^2 / (2 sigma)    s.t.  A(X) = b (or <= b),  X = Y Y'
    inner:  min over Y of  P(Y Y') + (||[u + mu (A(Y Y') - b)]||^2 - ||u||^2) / (2 mu),   [.] the projection on the dual's box
    outer:  u <- [u + mu (A(Y Y') - b)],   which is the proximal-point method on the dual of the original, convex program
    D(u) <= P* for every Y, so the bound needs no convexity in Y

The inner problem is minimised by L-BFGS with an exact line search: along a line, A is quadratic and
the whole a (piecewise) quartic. Gradients are smoothed by what the problem knows of the curvature
(on the host a sparse factorisation of the constraints' at Y: 1,044 iterations instead of 4,438 on
400 points of a Swiss roll). Its stationary points are those of the convex program unless K(u) - Y
Y' / sigma has a positive eigenvalue, K(u) the matrix of the dual; an eigenvector of it is then a
direction of descent and is appended to Y, and columns that vanish are dropped: the rank adapts.

Stops when |P - D| / max(|P|, |D|) <= tol and the violation of the constraints is <= tol, at a point
that the problem has repaired: feasible, with inequalities.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.arrays import Array, is_torch, like, to_numpy, zeros
from ...engine.certificate import relative_gap
from ...engine.curvature_memory import two_loop
from ...engine.dual_quasi_newton import MAX_TRIALS
from ...engine.program import Evaluation
from ...engine.solver import Iterate, Solver, Steps
from .program import UnfoldingProgram

INNER_ITER, MEMORY = 2000, 20  # of L-BFGS: the most iterations per outer one, curvature pairs
GROWTH = 5.0  # of the penalty, if neither violation nor gap halved
FIRST_ACCURACY = 1e-2  # of the gradient, relative to that of the objective alone
INNER, FLOOR, FLOOR_REGULARISED = 0.1, 0.1, 0.03  # share of the error, of tol and of sqrt(tol)
EXHAUSTED = 1e-11  # relative accuracy of a gradient that double precision cannot improve on
NEW_COLUMNS = 3  # at most, per outer iteration
REFRESHED = 30  # iterations after which the smoother is computed again
REPAIR_GAP = 3.0  # gap and violation, in units of tol, at which repairing Y begins to pay
NEGLIGIBLE = 1e-10  # squared length of a column, relative to the largest, below which it is dropped
FLAT = 0.1  # share of the first slope at which a line search ends
LONGEST = 10.0  # factor by which a step may grow in one trial


@dataclass(frozen=True)
class LowRankLagrangian(Solver):
    """See the module docstring; ``start`` is the factor Y to begin from."""

    max_iter: int = 100
    solves = UnfoldingProgram

    def steps(self, problem: UnfoldingProgram, start: Array | None) -> Steps:
        b, forward = problem.b, problem.operator.forward_factor
        Y = problem.start_factor() if start is None else start
        u = problem.project(b * 0)
        accuracy, evaluations, last = FIRST_ACCURACY, 0, np.inf
        exact = np.isinf(problem.sigma)
        floor = FLOOR * self.tol if exact else FLOOR_REGULARISED * self.tol**0.5
        # the multipliers weigh distances against the trace, so their mean is about Tr X / sum(b)
        mu = float((Y * Y).sum()) / b.shape[0] / (float(b.mean()) ** 2 or 1.0)
        while True:
            Y, used, reached = self._minimise(problem, Y, u, mu, accuracy)
            evaluations += used
            margins = forward(Y)
            u = problem.project(u + mu * (margins - b))
            point = problem.evaluate(u, Y.shape[1])
            primal, violation = problem.primal_at(Y, margins)
            price = max(violation, problem.price(u, margins, primal))
            extra = {"rank": Y.shape[1], "evaluations": evaluations}
            extra |= {"penalty": mu, "accuracy": reached}
            known = np.isfinite(point.dual)
            error = max(price, abs(relative_gap(primal, point.dual)) if known else 1.0)
            found = problem.repaired(Y) if error <= REPAIR_GAP * self.tol else Y
            primal, violation = problem.primal_at(found, forward(found), u)
            yield Iterate(primal, point.dual, found, u, violation, extra)
            if accuracy < EXHAUSTED:
                return
            Y = self._reshape(problem, Y, point, mu, accuracy)
            if error > 0.5 * last and reached <= accuracy:
                mu *= GROWTH
                accuracy *= 0.5
            accuracy, last = min(accuracy, max(INNER * error, floor)), error

    def _minimise(
        self, problem: UnfoldingProgram, Y: Array, u: Array, mu: float, accuracy: float
    ) -> tuple[Array, int, float]:
        """(Y, iterations, accuracy): descend until the gradient reaches ``accuracy``."""
        xp, shape = problem.operator.xp, Y.shape
        line = Line(problem, Y, u, mu)
        g = line.gradient()
        memory = Memory(g.reshape(-1))
        smooth: Any = None
        for used in range(1, INNER_ITER + 1):
            if used % REFRESHED == 1:
                last, smooth = smooth, problem.smoother(line.Y, u, mu)
                if smooth is not last:
                    h = smooth(g)
                    memory.places.clear()
            norms = xp.stack([xp.linalg.vector_norm(g), xp.linalg.vector_norm(line.Y)])
            size, length = to_numpy(norms).tolist()
            if size <= 2 * accuracy * length:
                break
            direction = -memory.direction(h.reshape(-1), g.reshape(-1)).reshape(shape)
            step = line.search(direction, g)
            if step is None:
                if not memory.places:
                    break
                memory.places.clear()
                continue
            new = line.gradient()
            smoothed = smooth(new)
            pair = step * direction, smoothed - h, new - g
            memory.append(*(each.reshape(-1) for each in pair))
            g, h = new, smoothed
        return line.Y, used, size / (2 * length)

    def _reshape(
        self, problem: UnfoldingProgram, Y: Array, point: Evaluation, mu: float, accuracy: float
    ) -> Array:
        """Y in principal axes, without vanished columns, with directions of descent appended."""
        xp, forward = problem.operator.xp, problem.operator.forward_factor
        values, vectors = xp.linalg.eigh(Y.T @ Y)
        Y = (Y @ vectors)[:, values > NEGLIGIBLE * values[-1]]
        V = point.part.vectors
        W = V.T @ Y
        values, vectors = xp.linalg.eigh(xp.diag(point.part.values) - W @ W.T / problem.sigma)
        for i in range(max(0, len(values) - NEW_COLUMNS), len(values)):
            if values[i] > accuracy:
                new = V @ vectors[:, i : i + 1]
                curvature = mu * (forward(new) ** 2).sum() + 1 / problem.sigma
                Y = xp.concatenate([Y, new * (values[i] / curvature) ** 0.5], 1)
        return Y


class Memory:
    """The last steps of L-BFGS in the inner product <a, b> = a'M b, where M^-1 is the smoother, and the
    changes of h and g along them: g is the gradient, and h = M^-1 g. Rows of two arrays, where a new
    step takes the place of the oldest.
    """

    def __init__(self, g: Array):
        self.rows = zeros((2 * MEMORY + 1, len(g)), g)  # steps, changes of h, h
        self.duals = zeros((MEMORY + 1, len(g)), g)  # changes of g, g
        self.products = np.zeros((2 * MEMORY + 1, MEMORY + 1))  # of rows and duals
        self.places: deque[int] = deque(maxlen=MEMORY)  # of steps, the oldest first

    def append(self, step: Array, change: Array, dual: Array) -> None:
        i = self.places[0] if len(self.places) == MEMORY else len(self.places)
        self.places.append(i)
        self.rows[i], self.rows[MEMORY + i], self.duals[i] = step, change, dual

    def direction(self, h: Array, g: Array) -> Array:
        """Every product in the two loops has h, or a change of it, on one side: M is not applied."""
        k, places = len(self.places), np.array(self.places, int)
        if not k:
            return h
        self.rows[-1], self.duals[-1] = h, g
        if is_torch(self.rows):  # on a device all products at once
            self.products = to_numpy(self.rows @ self.duals.T)
        else:  # only those that have changed: of the last pair, h and g
            rows = [places[-1], MEMORY + places[-1], 2 * MEMORY]
            self.products[rows] = self.rows[rows] @ self.duals.T
            duals = [places[-1], MEMORY]
            self.products[:, duals] = self.rows @ self.duals[duals].T
        used = np.concatenate([places, MEMORY + places, [2 * MEMORY]])
        gram = np.zeros((2 * k + 1, 2 * k + 1))
        gram[:, k:] = self.products[used][:, np.append(places, MEMORY)]
        gram[k:] = gram[:, k:].T
        found = two_loop(gram, k)
        if found is None:
            return h
        coefficients = np.zeros(2 * MEMORY + 1)
        coefficients[used] = found
        return like(coefficients, g) @ self.rows


class Line:
    """The augmented Lagrangian at Y, along lines from Y."""

    def __init__(self, problem: UnfoldingProgram, Y: Array, u: Array, mu: float):
        self.problem, self.Y, self.u, self.mu = problem, Y, u, mu
        self.margins = problem.operator.forward_factor(Y)

    def gradient(self) -> Array:
        p, Y = self.problem, self.Y
        multipliers = p.project(self.u + self.mu * (self.margins - p.b))
        own = p.cost_product(Y) + Y @ (Y.T @ Y) / p.sigma  # of the objective
        return 2 * (own + p.operator.adjoint_product(multipliers, Y))

    def search(self, direction: Array, gradient: Array) -> float | None:
        """Move along ``direction`` to where the slope is `FLAT`; the step, or None without descent."""
        section = Section(self, direction, gradient)
        t = section.lowest()
        if t is not None:
            self.Y = self.Y + t * direction
            self.margins = section.A0 + t * (section.A1 + t * section.A2)
        return t


class Section:
    """The augmented Lagrangian at Y + t Z as a function of t.

    The margins are A0 + t A1 + t^2 A2. The derivative of <C, X> + ||X||_F^2 / (2 sigma) is a cubic
    in t (``cubic``, its coefficients), by products of Y, Z and C Z.
    """

    def __init__(self, line: Line, Z: Array, gradient: Array):
        self.problem, self.mu, Y = line.problem, line.mu, line.Y
        xp, forward = line.problem.operator.xp, line.problem.operator.forward_factor
        self.A0, self.A2 = line.margins, forward(Z)
        self.A1 = forward(Y + Z) - self.A0 - self.A2
        self.A12 = xp.stack([self.A1, self.A2])
        self.multipliers = line.u + self.mu * (self.A0 - line.problem.b)
        columns = xp.concat([Y, Z, line.problem.cost_product(Z)], 1)
        # all products that need the device, in one transfer
        parts = (columns.T @ columns).reshape(-1), (gradient * Z).sum()[None]
        *gram, self.slope_at_zero = to_numpy(xp.concat(parts)).tolist()
        r = Y.shape[1]
        self.cubic = _objective_slope(np.reshape(gram, (3 * r, 3 * r)), 1 / self.problem.sigma)

    def slopes(self, t: float) -> tuple[float, float]:
        """First and second derivative at t."""
        first = self.cubic @ t ** np.arange(4)
        second = self.cubic[1:] @ (np.arange(1, 4) * t ** np.arange(3))
        xp = self.problem.operator.xp
        unclipped = self.multipliers + (self.mu * t) * (self.A1 + t * self.A2)
        rate = self.A1 + (2 * t) * self.A2
        lam = self.problem.project(unclipped)
        free = xp.where(lam == unclipped, rate, 0.0)
        along, curved, stiff = to_numpy(xp.concat([self.A12 @ lam, (free @ free)[None]])).tolist()
        along += 2 * t * curved
        return float(first + along), float(second + 2 * curved + self.mu * stiff)

    def lowest(self) -> float | None:
        """A step with slope `FLAT`, by Newton's method inside a bracket; None without descent."""
        if not self.slope_at_zero < 0:
            return None
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(MAX_TRIALS):
            slope, curvature = self.slopes(t)
            if abs(slope) <= FLAT * abs(self.slope_at_zero):
                break
            low, high = (t, high) if slope < 0 else (low, t)
            newton, longest = t - slope / curvature if curvature > 0 else np.inf, LONGEST * t
            t = newton if low < newton < min(high, longest) else min(longest, (low + high) / 2)
        return t


def _objective_slope(gram: Array, s: float) -> np.ndarray:
    """Coefficients of d/dt of <C, X> + s/2 ||X||_F^2 at X = (Y + t Z)(Y + t Z)'."""
    r = len(gram) // 3
    YY, YZ, ZZ = gram[:r, :r], gram[:r, r : 2 * r], gram[r : 2 * r, r : 2 * r]
    YCZ, ZCZ = np.trace(gram[:r, 2 * r :]), np.trace(gram[r : 2 * r, 2 * r :])
    square = (YZ * YZ).sum() + (YZ * YZ.T).sum() + (YY * ZZ).sum()
    linear, quadratic = YCZ + s * (YY * YZ).sum(), ZCZ + s * square
    return 2 * np.array([linear, quadratic, 3 * s * (YZ * ZZ).sum(), s * (ZZ * ZZ).sum()])
