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

INNER_ITER = 2000  # of L-BFGS, at most, in an outer one
MEMORY = 20  # curvature pairs
GROWTH = 5.0  # of the penalty, if neither violation nor gap halved
FIRST_ACCURACY = 1e-2  # of the gradient, relative to that of the objective alone
INNER = 0.1  # accuracy of the gradient, as a share of the error
FLOOR = 0.1  # the finest, as a share of tol
FLOOR_REGULARISED = 0.03  # the same where sigma is finite, as a share of sqrt(tol)
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
        b = problem.b
        forward = problem.operator.forward_factor
        Y = problem.start_factor() if start is None else start
        u = problem.project(b * 0)
        accuracy = FIRST_ACCURACY
        evaluations = 0
        last = np.inf
        floor = self._floor(problem)
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
            extra = {
                "rank": Y.shape[1],
                "evaluations": evaluations,
                "penalty": mu,
                "accuracy": reached,
            }
            gap = 1.0
            if np.isfinite(point.dual):  # else eigenpairs were missing
                gap = abs(relative_gap(primal, point.dual))
            error = max(price, gap)
            found = Y
            if error <= REPAIR_GAP * self.tol:
                found = problem.repaired(Y)
            primal, violation = problem.primal_at(found, forward(found), u)
            yield Iterate(primal, point.dual, found, u, violation, extra)
            if accuracy < EXHAUSTED:
                return
            Y = self._reshape(problem, Y, point, mu, accuracy)
            if error > 0.5 * last and reached <= accuracy:
                mu *= GROWTH
                accuracy *= 0.5
            accuracy = min(accuracy, max(INNER * error, floor))
            last = error

    def _floor(self, problem: UnfoldingProgram) -> float:
        """Return the finest accuracy of a gradient that is asked for before the end."""
        if np.isinf(problem.sigma):
            return FLOOR * self.tol
        return FLOOR_REGULARISED * self.tol**0.5

    def _minimise(
        self, problem: UnfoldingProgram, Y: Array, u: Array, mu: float, accuracy: float
    ) -> tuple[Array, int, float]:
        """Return Y, iterations and accuracy of a descent until the gradient reaches ``accuracy``."""
        xp = problem.operator.xp
        line = Line(problem, Y, u, mu)
        g = line.gradient()
        memory = Memory(g.reshape(-1))
        smooth: Any = None
        for used in range(1, INNER_ITER + 1):
            if used % REFRESHED == 1:
                last = smooth
                smooth = problem.smoother(line.Y, u, mu)
                if smooth is not last:  # what is remembered is of another inner product
                    h = smooth(g)
                    memory.places.clear()
            norms = xp.stack([xp.linalg.vector_norm(g), xp.linalg.vector_norm(line.Y)])
            size, length = to_numpy(norms).tolist()
            # 2 ||Y|| is the size of the gradient of -Tr Y Y' alone
            if size <= 2 * accuracy * length:
                break
            direction = -memory.direction(h.reshape(-1), g.reshape(-1)).reshape(Y.shape)
            step = line.search(direction, g)
            if step is None:
                if not memory.places:  # not even the smoothed gradient descends
                    break
                memory.places.clear()
                continue
            new = line.gradient()
            smoothed = smooth(new)
            memory.append(
                (step * direction).reshape(-1), (smoothed - h).reshape(-1), (new - g).reshape(-1)
            )
            g = new
            h = smoothed
        return line.Y, used, size / (2 * length)

    def _reshape(
        self, problem: UnfoldingProgram, Y: Array, point: Evaluation, mu: float, accuracy: float
    ) -> Array:
        """Y in principal axes, without vanished columns, with directions of descent appended."""
        xp = problem.operator.xp
        values, vectors = xp.linalg.eigh(Y.T @ Y)
        Y = (Y @ vectors)[:, values > NEGLIGIBLE * values[-1]]
        # K(u) - Y Y' / sigma in the leading eigenvectors V of K(u), outside of which K(u) is not positive
        V = point.part.vectors
        W = V.T @ Y
        values, vectors = xp.linalg.eigh(xp.diag(point.part.values) - W @ W.T / problem.sigma)
        for i in range(max(0, len(values) - NEW_COLUMNS), len(values)):
            if values[i] > accuracy:
                new = V @ vectors[:, i : i + 1]
                # with the column sqrt(t) new it falls by t value - t^2 curvature / 2
                margins = problem.operator.forward_factor(new)
                curvature = mu * (margins**2).sum() + 1 / problem.sigma
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
        """Remember a step and the changes of h and g along it, instead of the oldest if it is full."""
        i = len(self.places)
        if i == MEMORY:
            i = self.places[0]
        self.places.append(i)
        self.rows[i] = step
        self.rows[MEMORY + i] = change
        self.duals[i] = dual

    def direction(self, h: Array, g: Array) -> Array:
        """Return the quasi-Newton direction, negated, from h = M^-1 g and g.

        Every product in the two loops has h, or a change of it, on one side: M is not applied.
        """
        k = len(self.places)
        if not k:
            return h
        places = np.array(self.places, int)
        self.rows[-1] = h
        self.duals[-1] = g
        self._update_products(places[-1])
        used = np.concatenate([places, MEMORY + places, [2 * MEMORY]])
        # the two loops never multiply two steps with each other, whose products are not known
        gram = np.zeros((2 * k + 1, 2 * k + 1))
        gram[:, k:] = self.products[used][:, np.append(places, MEMORY)]
        gram[k:] = gram[:, k:].T
        found = two_loop(gram, k)
        if found is None:
            return h
        coefficients = np.zeros(2 * MEMORY + 1)
        coefficients[used] = found
        return like(coefficients, g) @ self.rows

    def _update_products(self, last: int) -> None:
        """Compute the products that have changed since the last pair, h and g took their places."""
        if is_torch(self.rows):  # on a device all products at once
            self.products = to_numpy(self.rows @ self.duals.T)
            return
        rows = [last, MEMORY + last, 2 * MEMORY]
        self.products[rows] = self.rows[rows] @ self.duals.T
        duals = [last, MEMORY]
        self.products[:, duals] = self.rows @ self.duals[duals].T


class Line:
    """The augmented Lagrangian at Y, along lines from Y."""

    def __init__(self, problem: UnfoldingProgram, Y: Array, u: Array, mu: float):
        self.problem = problem
        self.Y = Y
        self.u = u
        self.mu = mu
        self.margins = problem.operator.forward_factor(Y)

    def gradient(self) -> Array:
        """2 (C + Y Y' / sigma + A*([u + mu (A(Y Y') - b)])) Y."""
        p = self.problem
        Y = self.Y
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
        self.problem = line.problem
        self.mu = line.mu
        Y = line.Y
        xp = line.problem.operator.xp
        forward = line.problem.operator.forward_factor
        self.A0 = line.margins
        self.A2 = forward(Z)
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
        # lam'(A1 + 2 t A2) and its derivative: 2 lam'A2, and mu rate^2 where lam is inside its box
        along, curved, stiff = to_numpy(xp.concat([self.A12 @ lam, (free @ free)[None]])).tolist()
        along += 2 * t * curved
        return float(first + along), float(second + 2 * curved + self.mu * stiff)

    def lowest(self) -> float | None:
        """A step with slope `FLAT`, by Newton's method inside a bracket; None without descent."""
        if not self.slope_at_zero < 0:
            return None
        low = 0.0
        high = np.inf
        t = 1.0
        for _ in range(MAX_TRIALS):
            slope, curvature = self.slopes(t)
            if abs(slope) <= FLAT * abs(self.slope_at_zero):
                break
            if slope < 0:
                low = t
            else:
                high = t
            newton = np.inf
            if curvature > 0:
                newton = t - slope / curvature
            longest = LONGEST * t
            if low < newton < min(high, longest):
                t = newton
            else:
                t = min(longest, (low + high) / 2)
        return t


def _objective_slope(gram: Array, s: float) -> np.ndarray:
    """Coefficients of d/dt of <C, X> + s/2 ||X||_F^2 at X = (Y + t Z)(Y + t Z)'."""
    r = len(gram) // 3
    of_Y = slice(r)
    of_Z = slice(r, 2 * r)
    of_CZ = slice(2 * r, 3 * r)
    YY = gram[of_Y, of_Y]
    YZ = gram[of_Y, of_Z]
    ZZ = gram[of_Z, of_Z]
    # X has the norm of the Gram matrix YY + t (YZ + YZ') + t^2 ZZ
    square = (YZ * YZ).sum() + (YZ * YZ.T).sum() + (YY * ZZ).sum()
    constant = np.trace(gram[of_Y, of_CZ]) + s * (YY * YZ).sum()
    linear = np.trace(gram[of_Z, of_CZ]) + s * square
    quadratic = 3 * s * (YZ * ZZ).sum()
    return 2 * np.array([constant, linear, quadratic, s * (ZZ * ZZ).sum()])
