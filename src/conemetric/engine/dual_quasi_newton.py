"""Projected limited-memory quasi-Newton ascent on a box-constrained spectral dual.

    D(u) = linear'u - sigma/2 ||[K(u)]_+||_F^2,   lower <= u <= upper         (engine.program.SpectralDual)
    M(u) = sigma [K(u)]_+        grad D(u) = linear - sign A(M(u))
    P(M(u)) - D(u) >= P(M(u)) - P(M*) >= 0        for every u in the box, if M(u) is feasible

The paper runs L-BFGS-B on it [FrobMetric, eq. 5]. Here each step fixes the multipliers that sit at
a bound with the gradient pointing outwards, builds the L-BFGS direction from the curvature pairs
restricted to the free ones (a two-metric projection, Bertsekas 1982; Kim, Sra & Dhillon 2010), and
follows the projected arc by an Armijo search. The two-loop recursion runs on the Gram matrix of the
stored vectors (Chen et al. 2014), so that an iteration costs one product with them and one
evaluation of D. On 45,000 MNIST triplets it needs less than half the evaluations of L-BFGS-B.

A dual whose maximiser lies inside its box (a logistic loss) takes Newton directions instead
(`newton_direction`), with the same search. Many constraints of which few matter are solved in
rounds of a cheaper program (`dual_rounds`).

Stops when (P - D) / max(|P|, |D|) <= tol.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Self

import numpy as np

from ..core.arrays import Array, Arrays, Pair, Values, is_torch, like, namespace
from ..core.vectors import Reduction, VectorSpace, magnitude, total
from .dual_rounds import Rounds, as_iterate, placed, unbound
from .newton_direction import dot, newton_direction
from .program import Evaluation, SpectralDual
from .solver import SAVE_EVERY, Infeasible, Solver, Steps

ARMIJO = 1e-4  # share of the predicted rise that a step must reach (Nocedal & Wright, 3.1)
LEAST_COSINE = 1e-2  # between the two vectors of a curvature pair that is used
SHORTEST = 0.1  # share of a step that fell, which the next one is at least
MAX_TRIALS = 40  # shorter or longer ones of one step
MIN_SLOPE_RATIO = 0.99  # slope after a whole step over that before, if the step should double
NOISE = 1e3  # roundings of D, within which slopes decide instead of values
# powers of the constraints' sizes in the units of multipliers, for similar curvatures
EVEN, EVEN_SMOOTH = -0.7, -0.3  # the second with a curved gain, which counts too
NEWTON_FROM = 5  # evaluations after which Newton directions are used, if they pay
CHUNK = 1 << 16  # multipliers whose curvature pairs are read at a time: few calls, little memory


@dataclass(frozen=True)
class DualQuasiNewton(Solver):
    """Projected L-BFGS with ``memory`` curvature pairs; ``start`` are multipliers.

    Multipliers in blocks are saved every ``save_every`` iterations (None: never). The curvature
    pairs are dropped then, so that the multipliers alone are the state.
    """

    memory: int = 10
    save_every: int | None = SAVE_EVERY
    solves = SpectralDual

    def steps(self, problem: SpectralDual, start: Array | None) -> Steps:
        space = problem.operator.space
        point, evaluations = self._first(problem, start)
        memory = CurvatureMemory(Box.of(problem), self.memory)
        rounds = Rounds(self, problem)
        for number in count():
            iterate = as_iterate(point, evaluations)
            reason = problem.refutation(point)
            if reason:
                raise Infeasible(reason, iterate)
            yield iterate
            if number and space.saves_state and self.save_every and number % self.save_every == 0:
                point = point.moved(space.save_state(u=point.u, evaluations=evaluations)["u"])
                memory = CurvatureMemory(memory.box, self.memory)
            choice = rounds.chosen(point, evaluations, number)
            if choice is not None:
                now = choice, point, memory, evaluations, number
                point, memory, evaluations = yield from rounds.steps(*now)
                continue
            after, memory, tried = self.step(problem, point, memory, evaluations)
            if after is None:
                return
            point, evaluations = after, evaluations + tried

    def step(
        self, problem: SpectralDual, point: Evaluation, memory: "CurvatureMemory", evaluations: int
    ) -> tuple[Evaluation | None, "CurvatureMemory", int]:
        """(next point, memory with the step to it, evaluations); point None if none is higher."""
        box, tried = memory.box, 0
        space = box.space
        if problem.interior and evaluations >= NEWTON_FROM:
            direction, tried = newton_direction(problem, point, space.map(unbound, *box.at(point)))
        else:
            direction = memory.direction(point)
        if direction is not None:
            accepted, extended, more = self._search(problem, point, direction, memory)
            tried += more
            if accepted is not None:
                return accepted, extended, tried
        memory = CurvatureMemory(box, self.memory)
        direction = space.map(_steepest, *box.at(point))
        slope = space.sum(dot, point.gradient, direction)
        if not 0 < slope < np.inf:
            return None, memory, tried
        curvature = problem.curvature(direction, point.u)
        if curvature > 0:
            direction = direction * (slope / curvature)
        accepted, memory, more = self._search(problem, point, direction, memory)
        return accepted, memory, tried + more

    def _first(self, problem: SpectralDual, start: Array | None) -> tuple[Evaluation, int]:
        operator, names = problem.operator, ("u", "evaluations")
        resumed = operator.space.resume(operator, *names) if self.save_every else None
        if resumed is not None:
            return problem.evaluate(resumed["u"]), resumed["evaluations"]
        cold = problem.start()
        if start is None:
            return cold, 1
        # those of another program, with other weights, can be so bad that no step leads away
        warm = problem.evaluate(problem.project(operator.constraint_vector(start)))
        return (warm if warm.dual > cold.dual else cold), 2

    def _search(
        self, problem: SpectralDual, point: Evaluation, direction: Array, memory: "CurvatureMemory"
    ) -> tuple[Evaluation | None, "CurvatureMemory", int]:
        """(point, memory with the step to it, trials): a point of the projected arc u + t d that
        rises enough, or None; t = 1, 2, 4, ..., or where D falls the maximiser of a parabola.

        If the rise is lost in the rounding of D, slopes decide instead of values (Hager & Zhang
        2005). If the slope hardly falls over a whole step, the step doubles: the direction is
        poorly scaled, or the dual has no bound.
        """
        noise = NOISE * problem.operator.eps * abs(point.dual)
        t, best, kept = 1.0, None, memory
        for tried in range(1, MAX_TRIALS + 1):
            u = problem.project(point.u + direction * t)
            trial = problem.evaluate(u, point.rank, total(dot, point.gradient, u - point.u))
            rise, (slope,) = trial.dual - point.dual, trial.requested_totals
            if best is not None and not rise > best.dual - point.dual:
                break
            if not slope > 0:
                return None, memory, tried
            risen = rise >= ARMIJO * slope and rise > noise
            if risen or abs(rise) <= noise:
                extended = memory.extended(point, trial)
                requested = total(dot, trial.gradient, u - point.u), extended.gram(trial)
                slope_there, gram = trial.measure(*requested)
                if risen or slope_there >= (2 * ARMIJO - 1) * slope:
                    best, kept = trial, replace(extended, products=gram)
                    if t < 1 or slope_there < MIN_SLOPE_RATIO * slope:
                        break
                    t *= 2
                    continue
            t *= max(SHORTEST, 0.5 * slope / (slope - min(rise, 0.0)))
        return best, kept, tried


@dataclass(frozen=True)
class Box:
    """The box of a dual, and the units of its multipliers, in which float32 never overflows."""

    space: VectorSpace
    lower: Values
    upper: Values
    unit: Values
    relative: Values  # unit over the largest of all units

    @classmethod
    def of(cls, problem: SpectralDual) -> Self:
        space, unit, sizes = problem.operator.space, problem.unit, problem.sizes
        if not isinstance(sizes, float):
            power = EVEN_SMOOTH if problem.curved else EVEN
            unit = unit * (sizes * (1 / space.max(magnitude, sizes))) ** power
        relative = unit * (1 / space.max(magnitude, unit))
        return cls(space, problem.lower, problem.upper, unit, relative)

    def restricted(self, index: Array | None, reference: Array) -> "Box":
        """The box of the multipliers ``index`` (None: all), in the precision of ``reference``."""
        vectors = (self.lower, self.upper, self.unit, self.relative)
        return Box(self.space, *(_part(each, index, reference) for each in vectors))

    def at(self, point: Evaluation) -> tuple[Values, ...]:
        """What the functions mapped below take: u, the gradient, bounds, unit, relative unit."""
        return point.u, point.gradient, self.lower, self.upper, self.unit, self.relative


@dataclass(frozen=True)
class CurvatureMemory:
    """The last (s, y) pairs of a quasi-Newton method, and the direction H g they imply."""

    box: Box
    size: int
    pairs: Arrays | None = None  # vector of tuples (s_1, y_1, ..., s_k, y_k)
    length: int = 0
    products: np.ndarray | None = None  # Gram matrix at the point of the next direction, if known

    def extended(self, old: Evaluation, new: Evaluation) -> "CurvatureMemory":
        """With the step from ``old`` to ``new``, without the oldest one if full."""
        length = min(self.length + 1, self.size)
        step = (old.u, new.u, old.gradient, new.gradient, self.box.unit, self.box.relative)
        earlier = () if self.pairs is None else self.pairs
        pairs = self.box.space.map(_extended, earlier, *step, length=length)
        return CurvatureMemory(self.box, self.size, pairs, length)

    def restricted(self, index: Array | None, reference: Array) -> "CurvatureMemory":
        """For the multipliers ``index`` (None: all), in the precision of ``reference``."""
        box, pairs = self.box.restricted(index, reference), self.pairs
        if pairs is not None:
            pairs = tuple(_part(each, index, reference) for each in pairs)
        return CurvatureMemory(box, self.size, pairs, self.length)

    def lifted(self, index: Array | None, box: Box, u: Array) -> "CurvatureMemory":
        """For all multipliers u in ``box``, of which those not in ``index`` have not moved."""
        pairs = self.pairs
        if pairs is not None:
            moved = [like(each, u) for each in pairs]
            pairs = tuple(each if index is None else placed(u * 0, index, each) for each in moved)
        return CurvatureMemory(box, self.size, pairs, self.length)

    def gram(self, point: Evaluation) -> Reduction:
        """The reduction to the Gram matrix of all pairs and the gradient."""
        return total(_gram, self.pairs, *self.box.at(point))

    def direction(self, point: Evaluation) -> Array | None:
        """H g on the free multipliers, zero elsewhere; None without a pair of positive curvature."""
        if not self.length:
            return None
        space, products = self.box.space, self.products
        if products is None:
            (products,) = space.totals(self.gram(point))
        found = two_loop(products, self.length)
        if found is None:
            return None
        return space.map(_direction, self.pairs, *self.box.at(point), coefficients=found)


def two_loop(gram: np.ndarray, k: int) -> np.ndarray | None:
    """Coefficients of the L-BFGS direction over (s_1 .. s_k, y_1 .. y_k, g), from their Gram
    matrix.

    Nearly orthogonal pairs (s, y) are left out: restricted to the free multipliers, a pair may hide
    the curvature of s, and the direction would be far too long. None if no pair is left, or the
    direction is not one of ascent.
    """
    S, Y = np.arange(k), k + np.arange(k)
    curvature = gram[S, Y]
    good = np.flatnonzero(curvature > LEAST_COSINE * np.sqrt(gram[S, S] * gram[Y, Y]))
    if len(good) == 0:
        return None
    q = np.zeros(2 * k + 1)
    q[-1] = 1.0
    alpha = np.zeros(k)
    for i in reversed(good):
        alpha[i] = gram[i] @ q / curvature[i]
        q[k + i] -= alpha[i]
    q *= curvature[good[-1]] / gram[k + good[-1], k + good[-1]]
    for i in good:
        q[i] += alpha[i] - gram[k + i] @ q / curvature[i]
    return q if gram[-1] @ q > 0 else None


# ---- functions mapped and summed over blocks of multipliers


def _part(vector: Values | None, index: Array | None, reference: Array) -> Values | None:
    """The entries ``index`` (None: all) of a vector; numbers stay."""
    if vector is None or isinstance(vector, float):
        return vector
    return like(vector if index is None else vector[index], reference)


def _steepest(u: Array, g: Array, *box: Values) -> Array:
    return namespace(u).where(unbound(u, g, *box), g, 0.0) * box[3] ** 2


def _extended(
    pairs: Arrays, u: Array, new_u: Array, g: Array, new_g: Array, *units: Values, length: int
) -> Arrays:
    return (*pairs, (new_u - u) / units[0], (g - new_g) * units[1])[-2 * length :]


def _gram(pairs: Arrays, u: Array, g: Array, *box: Values) -> Array:
    """Products of s_1 .. s_k, y_1 .. y_k and the scaled gradient, over the free entries."""
    rows, free = (*pairs[0::2], *pairs[1::2], g * box[3]), unbound(u, g, *box)
    if is_torch(g):
        stacked = namespace(g).stack(rows) * free
        return stacked @ stacked.T
    gram = np.zeros((len(rows), len(rows)))
    for _, chunk in _chunks(rows, free):
        gram += np.dot(chunk, chunk.T)  # matmul would keep other threads waiting
    return gram


def _direction(pairs: Arrays, u: Array, g: Array, *box: Values, coefficients: Array) -> Array:
    """The combination of the rows of `_gram`, on the free entries, in units of u."""
    rows, free = (*pairs[0::2], *pairs[1::2], g * box[3]), unbound(u, g, *box)
    coefficients = like(coefficients, g)
    if is_torch(g):
        return (coefficients @ namespace(g).stack(rows)) * free * box[2]
    result = np.zeros_like(g)
    for index, chunk in _chunks(rows, free):
        result[index] = coefficients @ chunk
    result *= box[2]
    return result


def _chunks(rows: Arrays, free: Array) -> Iterator[Pair]:
    """The free columns of ``rows``, stacked `CHUNK` at a time, with their places."""
    places = None if free.all() else np.flatnonzero(free)
    for start in range(0, len(free) if places is None else len(places), CHUNK):
        part = slice(start, start + CHUNK)
        index = part if places is None else places[part]
        yield index, np.stack([row[index] for row in rows])
