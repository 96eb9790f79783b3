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
from typing import Any

import numpy as np

from ..core.arrays import Array, Values, is_torch, like, namespace, on_device, to_index
from .certificate import relative_gap
from .frobenius import FrobeniusProgram
from .mixture import Mixture
from .program import Evaluation
from .solver import Iterate

MIN_CONSTRAINTS = 10_000  # constraints below which no round pays for its setup
MAX_FREE_SHARE = 0.1  # share of free multipliers up to which only they, and as many more, move
FEW_FROM = 20  # evaluations before which the free set changes too quickly
LONGEST = 50  # steps of a round
SHORTEST = 3  # iterations left below which no round begins
GAP_SHARE, TOL_SHARE = 0.03, 0.9  # of the gap of the program, and of tol, at which a round ends
FINEST = 1e-4  # gap that single precision can reach
SINGLE_FROM = 3 * FINEST  # gap above which single precision is used
AT_BOUND = 1e-6  # share of a bound that rounding to single precision may lose
WITHIN = 1e10  # largest size of constraints, and one over the smallest, for squares in float32
Choice = tuple[Array | None, bool]  # multipliers to move, None for all; whether in float32
FULL_PRECISION = 1e-10  # eps below which a precision has digits to spare


class Rounds:
    """The rounds of one ascent of ``solver`` on ``problem``."""

    def __init__(self, solver: Any, problem: Any):
        self.solver, self.problem = solver, problem
        # on an accelerator few multipliers take as long as all
        operator = problem.operator
        worth = problem.restrictable and not on_device(operator.reference)
        self.possible = worth and operator.n_constraints >= MIN_CONSTRAINTS
        # whether there are digits to save, and all constraints fit in single precision
        sizes = problem.sizes if self.possible and operator.eps <= FULL_PRECISION else 1.0
        fit = not isinstance(sizes, float) and sizes.max() < WITHIN and sizes.min() > 1 / WITHIN
        self.single = bool(fit)
        self.stuck = False  # whether the last round made no progress
        self.n_iterations = 0  # of all rounds
        self.mixture: Mixture | None = None

    def chosen(self, point: Evaluation, evaluations: int, iterations: int) -> Choice | None:
        """The next round; None for a step of the whole."""
        if not self.possible or self.stuck or self._room(iterations) < SHORTEST:
            self.stuck = False
            return None
        index = working_set(self.problem, point) if evaluations >= FEW_FROM else None
        single = self.single and self._gap(point) > SINGLE_FROM
        return (index, single) if single or index is not None else None

    def _room(self, iterations: int) -> int:
        """Iterations left to the solver after ``iterations`` of the program itself."""
        return self.solver.max_iter - iterations - self.n_iterations

    def _gap(self, point: Evaluation) -> float:
        primal = point.primal[0]
        best = primal if self.mixture is None else min(primal, self.mixture.value)
        return relative_gap(best, point.dual)

    def steps(
        self, choice: Choice, point: Evaluation, memory: Any, evaluations: int, iterations: int
    ) -> Generator[Iterate, None, tuple[Evaluation, Any, int]]:
        """Yield the steps of a round; return its last point, the memory and the evaluations."""
        problem, (index, single) = self.problem, choice
        part = problem if index is None else problem.restricted(index, point.u)
        part = part.single if single else part
        enough = max(TOL_SHARE * self.solver.tol, FINEST if single else 0.0)
        enough = enough if index is None else max(enough, GAP_SHARE * self._gap(point))
        within = memory.restricted(index, part.operator.reference)
        u = point.u if index is None else point.u[index]
        first = inner = part.evaluate(like(u, part.operator.reference), point.rank)
        evaluations += 1
        mixture = None if index is None else self._mixture_within(part, index, inner)
        longest = min(LONGEST, self._room(iterations) - SHORTEST + 1)  # the program itself follows
        for _ in range(longest):
            primal = inner.primal[0] if mixture is None else mixture.value
            if relative_gap(primal, inner.dual) <= enough:
                break
            if index is None and evaluations >= FEW_FROM and few_are_free(part, inner):
                break
            accepted, within, tried = self.solver.step(part, inner, within, evaluations)
            evaluations += tried
            if accepted is None:
                break
            inner, mixture = accepted, mixture and mixture.extended(accepted)
            self.n_iterations += 1
            rounded = index is None
            yield self._rounded(inner, evaluations) if rounded else as_iterate(point, evaluations)
        if inner is not first:
            u = self._lifted(point.u, index, inner.u)
            whole = problem.evaluate(u, inner.rank)
            if whole.dual > point.dual:
                if mixture is not None:
                    self.n_iterations += 1
                    yield self._mixed(mixture.matrix, whole, evaluations)
                return whole, within.lifted(index, memory.box, u), evaluations + 1
        self.single, self.stuck = False, not single
        return point, memory, evaluations

    def _mixture_within(
        self, part: FrobeniusProgram, index: Array | None, inner: Evaluation
    ) -> Mixture:
        if self.mixture is None:
            return Mixture.of(part, inner.matrix, inner.margins)
        parts = self.mixture.matrix, self.mixture.margins[index]
        return Mixture.of(part, *(like(each, inner.u) for each in parts)).extended(inner)

    def _rounded(self, inner: Evaluation, evaluations: int) -> Iterate:
        """A point of all multipliers in single precision, with values relaxed by its accuracy."""
        iterate, reference = as_iterate(inner, evaluations), self.problem.operator.reference
        return replace(
            iterate,
            primal=iterate.primal + FINEST * abs(iterate.primal),
            dual=iterate.dual - FINEST * abs(iterate.dual),
            primal_point=like(iterate.primal_point, reference),
            dual_point=self._lifted(reference, None, inner.u),
        )

    def _mixed(self, matrix: Array, whole: Evaluation, evaluations: int) -> Iterate:
        """The mixture evaluated on all constraints, with the bound at the end of the round."""
        matrix = like(matrix, whole.u)
        factor = self.problem.primal_point(matrix)
        self.mixture = Mixture.of(self.problem, matrix, self.problem.margins_of(factor))
        iterate = as_iterate(whole, evaluations)
        return replace(iterate, primal=self.mixture.value, primal_point=factor)

    def _lifted(self, u: Array, index: Array | None, moved: Array) -> Array:
        """u with the multipliers that ``moved``, back at bounds that rounding took them off."""
        if moved.dtype != u.dtype:
            upper = self.problem.upper
            upper = upper if index is None or isinstance(upper, float) else upper[index]
            moved = like(moved, u)
            moved = namespace(u).where(moved >= upper * (1 - AT_BOUND), upper, moved)
        return moved if index is None else placed(u + 0, index, moved)


def few_are_free(problem: FrobeniusProgram, point: Evaluation) -> bool:
    """Whether most multipliers are at their bounds, at least for now."""
    return 0 < int(_free(problem, point).sum()) <= MAX_FREE_SHARE * len(point.u)


def _free(problem: FrobeniusProgram, point: Evaluation) -> Array:
    return unbound(point.u, point.gradient, problem.lower, problem.upper)


def working_set(problem: FrobeniusProgram, point: Evaluation) -> Array | None:
    """The free multipliers, and as many whose gradients turn next; None if they are many."""
    if not few_are_free(problem, point):
        return None
    free = _free(problem, point)
    distance = namespace(point.u).where(free, 0.0, abs(point.gradient))
    n = min(2 * int(free.sum()), len(free) - 1)
    nth = distance.kthvalue(n)[0] if is_torch(distance) else np.partition(distance, n)[n]
    return to_index(distance <= nth)


def unbound(u: Array, g: Array, lower: Values, upper: Values, *_: Values) -> Array:
    """Where no bound blocks the gradient."""
    return ~(((u <= lower) & (g <= 0)) | ((u >= upper) & (g >= 0)))


def placed(values: Array, index: Array | None, parts: Array) -> Array:
    """``values`` with ``parts`` at the positions ``index``, overwritten."""
    values[index] = parts
    return values


def as_iterate(point: Evaluation, evaluations: int) -> Iterate:
    primal, violation = point.primal
    extra = {"rank": point.rank, "evaluations": evaluations}
    return Iterate(primal, point.dual, point.primal_point, point.u, violation, extra)
