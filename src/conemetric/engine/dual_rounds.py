"""Rounds of a dual ascent in a cheaper program.

Most of the way to an optimum needs neither all multipliers nor all digits. A round is many steps of
the program restricted to the multipliers that are free or nearly so, with the others fixed at their
bounds (`FrobeniusProgram.restricted`; a few percent of the triplets of a large set), of the program
in single precision, or of both. It ends when the gap of that program is a small share of the gap of
the whole. Then the program itself is evaluated, on which all claims rest, and the next round is
chosen. On the few multipliers of a round the primal points met are mixed (`engine.mixture`).
"""

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.arrays import Array, is_torch, like, namespace, on_device, to_index
from .certificate import relative_gap
from .curvature_memory import CurvatureMemory, placed, unbound
from .frobenius import FrobeniusProgram
from .mixture import Mixture
from .program import Evaluation, SpectralDual
from .solver import Iterate

if TYPE_CHECKING:
    from .dual_quasi_newton import DualQuasiNewton

MIN_CONSTRAINTS = 10_000  # constraints below which no round pays for its setup
MAX_FREE_SHARE = 0.1  # share of free multipliers up to which only they, and as many more, move
FEW_FROM = 20  # evaluations before which the free set changes too quickly
LONGEST = 50  # steps of a round
SHORTEST = 3  # iterations left below which no round begins
GAP_SHARE = 0.03  # of the gap of the whole program, at which a round of few multipliers ends
TOL_SHARE = 0.9  # of tol, at which any round ends
FINEST = 1e-4  # gap that single precision can reach
SINGLE_FROM = 3 * FINEST  # gap above which single precision is used
AT_BOUND = 1e-6  # share of a bound that rounding to single precision may lose
WITHIN = 1e10  # largest size of constraints, and one over the smallest, for squares in float32
FULL_PRECISION = 1e-10  # eps below which a precision has digits to spare


class Ascent(NamedTuple):
    """Where an ascent is, the curvature pairs of its way there, and the evaluations so far."""

    point: Evaluation
    memory: CurvatureMemory
    evaluations: int


class Choice(NamedTuple):
    """What the next round is: which multipliers move (None: all), and whether in single precision."""

    moving: Array | None
    single: bool


class Rounds:
    """The rounds of one ascent of ``solver`` on ``problem``."""

    def __init__(self, solver: "DualQuasiNewton", problem: SpectralDual):
        self.solver = solver
        self.problem: FrobeniusProgram | None = None  # None: no round can pay
        if isinstance(problem, FrobeniusProgram) and _can_pay(problem):
            self.problem = problem
        self.single = self.problem is not None and _fits_single_precision(self.problem)
        self.stuck = False  # whether the last round made no progress
        self.n_iterations = 0  # of all rounds
        self.mixture: Mixture | None = None

    def chosen(self, point: Evaluation, evaluations: int, iterations: int) -> Choice | None:
        """Return the next round; None for a step of the whole."""
        if self.problem is None or self.stuck or self._room(iterations) < SHORTEST:
            self.stuck = False
            return None
        index = None
        if evaluations >= FEW_FROM:
            index = working_set(self.problem, point)
        single = self.single and self._gap(point) > SINGLE_FROM
        if index is None and not single:
            return None
        return Choice(index, single)

    def steps(
        self, choice: Choice, now: Ascent, iterations: int
    ) -> Generator[Iterate, None, Ascent]:
        """Yield the steps of a round, after ``iterations`` of the whole; return where they led."""
        assert self.problem is not None
        index = choice.moving
        enough = self._enough(choice, now.point)
        part = self.problem if index is None else self.problem.restricted(index, now.point.u)
        if choice.single:
            part = part.single
        memory = now.memory.restricted(index, part.operator.reference)
        start = self._start(part, index, now.point)
        mixture = None if index is None else self._mixture_within(part, index, start)
        inner = Ascent(start, memory, now.evaluations + 1)
        longest = min(LONGEST, self._room(iterations) - SHORTEST + 1)  # the program itself follows
        for _ in range(longest):
            primal = inner.point.primal[0] if mixture is None else mixture.value
            if relative_gap(primal, inner.point.dual) <= enough:
                break
            may_be_few = index is None and inner.evaluations >= FEW_FROM
            if may_be_few and few_are_free(part, inner.point):
                break
            step = self.solver.step(part, inner)
            evaluations = inner.evaluations + step.evaluations
            if step.point is None:
                inner = Ascent(inner.point, step.memory, evaluations)
                break
            inner = Ascent(step.point, step.memory, evaluations)
            if mixture is not None:
                mixture = mixture.extended(step.point)
            self.n_iterations += 1
            yield self._iterate(index, inner, now.point)
        if inner.point is not start:
            u = lifted(self.problem, now.point.u, index, inner.point.u)
            whole = self.problem.evaluate(u, inner.point.rank)
            # a rise in single precision may be none in the program itself: then the round is undone
            if whole.dual > now.point.dual:
                if mixture is not None:
                    self.n_iterations += 1
                    yield self._mixed(mixture.matrix, whole, inner.evaluations)
                memory = inner.memory.lifted(index, now.memory.box, u)
                return Ascent(whole, memory, inner.evaluations + 1)
        # single precision has reached its end or, without it, a step of the whole is due
        self.single = False
        self.stuck = not choice.single
        return now._replace(evaluations=inner.evaluations)

    def _room(self, iterations: int) -> int:
        """Return the iterations left to the solver after ``iterations`` of the program itself."""
        return self.solver.max_iter - iterations - self.n_iterations

    def _gap(self, point: Evaluation) -> float:
        """Return the gap between the dual at a point and the best primal value, also of the mixture."""
        primal = point.primal[0]
        if self.mixture is not None:
            primal = min(primal, self.mixture.value)
        return relative_gap(primal, point.dual)

    def _enough(self, choice: Choice, point: Evaluation) -> float:
        """Return the gap of its program at which a round from ``point`` ends."""
        enough = TOL_SHARE * self.solver.tol
        if choice.single:
            enough = max(enough, FINEST)
        if choice.moving is not None:
            enough = max(enough, GAP_SHARE * self._gap(point))
        return enough

    def _start(self, part: FrobeniusProgram, index: Array | None, point: Evaluation) -> Evaluation:
        """Return the multipliers ``index`` of a point of the whole, evaluated in ``part``."""
        u = point.u if index is None else point.u[index]
        return part.evaluate(like(u, part.operator.reference), point.rank)

    def _mixture_within(self, part: FrobeniusProgram, index: Array, start: Evaluation) -> Mixture:
        """Return the mixture so far, over the constraints of ``part``, with its first point."""
        if self.mixture is None:
            return Mixture.of(part, start.matrix, start.margins)
        matrix = like(self.mixture.matrix, start.u)
        margins = like(self.mixture.margins[index], start.u)
        return Mixture.of(part, matrix, margins).extended(start)

    def _iterate(self, index: Array | None, inner: Ascent, outer: Evaluation) -> Iterate:
        """Return what a step of a round proves about the whole program.

        With few multipliers that is nothing new. Of all of them in single precision, the values
        are relaxed by its accuracy.
        """
        if index is not None:
            return as_iterate(outer, inner.evaluations)
        assert self.problem is not None
        iterate = as_iterate(inner.point, inner.evaluations)
        reference = self.problem.operator.reference
        return replace(
            iterate,
            primal=iterate.primal + FINEST * abs(iterate.primal),
            dual=iterate.dual - FINEST * abs(iterate.dual),
            primal_point=like(iterate.primal_point, reference),
            dual_point=lifted(self.problem, reference, None, inner.point.u),
        )

    def _mixed(self, matrix: Array, whole: Evaluation, evaluations: int) -> Iterate:
        """Return the mixture evaluated on all constraints, with the bound at the end of the round."""
        assert self.problem is not None
        matrix = like(matrix, whole.u)
        factor = self.problem.primal_point(matrix)
        self.mixture = Mixture.of(self.problem, matrix, self.problem.margins_of(factor))
        iterate = as_iterate(whole, evaluations)
        return replace(iterate, primal=self.mixture.value, primal_point=factor)


def _can_pay(problem: FrobeniusProgram) -> bool:
    """Return whether rounds can pay; on an accelerator few multipliers take as long as all."""
    operator = problem.operator
    on_host = not on_device(operator.reference)
    return problem.restrictable and on_host and operator.n_constraints >= MIN_CONSTRAINTS


def _fits_single_precision(problem: FrobeniusProgram) -> bool:
    """Return whether there are digits to save, and all constraints fit in single precision."""
    sizes = problem.sizes
    if problem.operator.eps > FULL_PRECISION or isinstance(sizes, float):
        return False
    return bool(sizes.max() < WITHIN and sizes.min() > 1 / WITHIN)


def lifted(problem: FrobeniusProgram, u: Array, index: Array | None, moved: Array) -> Array:
    """Return u with the multipliers that ``moved``, back at bounds that rounding took them off."""
    if moved.dtype != u.dtype:
        upper = problem.upper
        if index is not None and not isinstance(upper, float):
            upper = upper[index]
        # one that rounding left below its bound would count as free and enlarge the next round
        moved = like(moved, u)
        moved = namespace(u).where(moved >= upper * (1 - AT_BOUND), upper, moved)
    if index is None:
        return moved
    return placed(u + 0, index, moved)


def few_are_free(problem: FrobeniusProgram, point: Evaluation) -> bool:
    """Return whether most multipliers are at their bounds, at least for now."""
    n_free = int(_free(problem, point).sum())
    return 0 < n_free <= MAX_FREE_SHARE * len(point.u)


def _free(problem: FrobeniusProgram, point: Evaluation) -> Array:
    return unbound(point.u, point.gradient, problem.lower, problem.upper)


def working_set(problem: FrobeniusProgram, point: Evaluation) -> Array | None:
    """Return the free multipliers, and as many whose gradients turn next; None if they are many."""
    if not few_are_free(problem, point):
        return None
    free = _free(problem, point)
    # how far the gradient of a blocked multiplier is from changing its sign; the free come first
    distance = namespace(point.u).where(free, 0.0, abs(point.gradient))
    n = min(2 * int(free.sum()), len(free) - 1)
    if is_torch(distance):
        nth = distance.kthvalue(n)[0]
    else:
        nth = np.partition(distance, n)[n]
    return to_index(distance <= nth)


def as_iterate(point: Evaluation, evaluations: int) -> Iterate:
    """Return what the loop of solvers takes of an evaluation."""
    primal, violation = point.primal
    extra = {"rank": point.rank, "evaluations": evaluations}
    return Iterate(primal, point.dual, point.primal_point, point.u, violation, extra)
