"""Rounds of a dual ascent in a cheaper program.

Most of the way to an optimum needs neither all multipliers nor all digits. A round is many
steps of the program restricted to the multipliers that are free or nearly so, the others
kept at their bounds (`FrobeniusProgram.restricted`; a few percent of the triplets of a
large set), of the program in single precision, or of both. It ends when the gap of that
program is a part of the gap of the whole; then all is evaluated in the program itself,
which alone is claimed, and the next round chooses anew. On the few multipliers of a round
the primal points met are blended (`problems.blend`).
"""

from dataclasses import replace

import numpy as np

from ..arrays import is_torch, like, namespace, on_device, to_index
from ..problems.blend import Blend
from .base import Iterate, relative_gap

SMALL = 10_000  # constraints below which no round is worth its beginning
FEW = 0.1  # part of the multipliers that may be free when only they, and as many more, move
FEW_FROM = 20  # evaluations before which who is free changes too quickly
LONGEST = 50  # steps
SHORTEST = 3  # iterations left below which no round is begun
ENOUGH, SURE = 0.03, 0.9  # parts of the gap of the program, and of tol, at which a round ends
FINEST = 1e-4  # gap that single precision is good for
AT_BOUND = 1e-6  # part of a bound that single precision may lack
WITHIN = 1e10  # largest and smallest sizes of constraints whose squares single precision holds


class Rounds:
    """The rounds of one ascent of ``solver`` on ``problem``."""

    def __init__(self, solver, problem):
        self.solver, self.problem = solver, problem
        # on an accelerator eigenvalues and launches take as long for few multipliers as for all
        operator = problem.operator
        worth = problem.restrictable and not on_device(operator.reference)
        self.possible = worth and operator.n_constraints >= SMALL
        self.single = self.possible and _fits_single(problem)
        self.stuck = False  # whether the last round could not move
        self.n_iterations = 0  # of all rounds
        self.blend = None

    def chosen(self, point, evaluations, iterations):
        """(multipliers that should move in a round, or None for all; whether in single
        precision); None where a step of the program itself is due, ``iterations`` of these
        being behind.
        """
        self.room = self.solver.max_iter - iterations - self.n_iterations
        if not self.possible or self.stuck or self.room < SHORTEST:
            self.stuck = False
            return None
        index = working_set(self.problem, point) if evaluations >= FEW_FROM else None
        single = self.single and self._gap(point) > 3 * FINEST
        return (index, single) if single or index is not None else None

    def _gap(self, point):
        primal = point.primal[0]
        return relative_gap(
            primal if self.blend is None else min(primal, self.blend.value), point.dual
        )

    def steps(self, index, single, point, memory, evaluations):
        """The steps of a round from ``point``; (the point it ends at, the memory, number
        of evaluations).
        """
        problem = self.problem
        part = problem if index is None else problem.restricted(index, point.u)
        part = part.single if single else part
        enough = SURE * self.solver.tol
        enough = max(
            enough, 0.0 if index is None else ENOUGH * self._gap(point), FINEST if single else 0.0
        )
        within = memory.restricted(index, part.operator.reference)
        u = point.u if index is None else point.u[index]
        first = inner = part.evaluate(like(u, part.operator.reference), point.rank)
        evaluations += 1
        blend = None if index is None else self._blend_within(part, index, inner)
        for _ in range(min(LONGEST, self.room - SHORTEST + 1)):  # the whole comes after
            primal = inner.primal[0] if blend is None else blend.value
            if relative_gap(primal, inner.dual) <= enough:
                break
            if index is None and evaluations >= FEW_FROM and few_are_free(part, inner):
                break
            accepted, within, tried = self.solver.step(part, inner, within, evaluations)
            evaluations += tried
            if accepted is None:
                break
            inner, blend = accepted, blend and blend.joined(accepted)
            self.n_iterations += 1
            if index is None:
                yield self._rounded(inner, evaluations)
            else:
                yield as_iterate(point, evaluations)
        if inner is not first:
            u = self._lifted(point.u, index, inner.u)
            whole = problem.evaluate(u, inner.rank)
            if whole.dual > point.dual:
                if blend is not None:
                    self.n_iterations += 1
                    yield self._blended(blend.matrix, whole, evaluations)
                return whole, within.lifted(index, memory.box, u), evaluations + 1
        self.single, self.stuck = False, not single
        return point, memory, evaluations

    def _blend_within(self, part, index, inner):
        if self.blend is None:
            return Blend.of(part, inner.matrix, inner.margins)
        parts = self.blend.matrix, self.blend.margins[index]
        return Blend.of(part, *(like(each, inner.u) for each in parts)).joined(inner)

    def _rounded(self, inner, evaluations):
        """A point of all multipliers in single precision, claimed for what that is good for."""
        iterate, reference = as_iterate(inner, evaluations), self.problem.operator.reference
        return replace(
            iterate,
            primal=iterate.primal + FINEST * abs(iterate.primal),
            dual=iterate.dual - FINEST * abs(iterate.dual),
            primal_point=like(iterate.primal_point, reference),
            dual_point=self._lifted(reference, None, inner.u),
        )

    def _blended(self, matrix, whole, evaluations):
        """The blend judged by all constraints, with the bound at the end of the round."""
        matrix = like(matrix, whole.u)
        factor = self.problem.primal_point(matrix)
        self.blend = Blend.of(self.problem, matrix, self.problem.margins_of(factor))
        iterate = Iterate(self.blend.value, whole.dual, factor, whole.u)
        return replace(iterate, extra={"rank": whole.rank, "evaluations": evaluations})

    def _lifted(self, u, index, moved):
        """u with what has ``moved``, those at a bound in single precision being at it."""
        if moved.dtype != u.dtype:
            upper = self.problem.upper
            if index is not None and not isinstance(upper, float):
                upper = upper[index]
            moved = like(moved, u)
            moved = namespace(u).where(moved >= upper * (1 - AT_BOUND), upper, moved)
        return moved if index is None else placed(u + 0, index, moved)


def _fits_single(problem):
    """Whether there are digits to save, and no row too large or small to do without them."""
    sizes = problem.sizes
    if problem.operator.eps > 1e-10 or isinstance(sizes, float):
        return False
    return float(sizes.max()) < WITHIN and float(sizes.min()) > 1 / WITHIN


def few_are_free(problem, point):
    """Whether most multipliers stay at their bounds, at least for now."""
    free = unbound(point.u, point.gradient, problem.lower, problem.upper)
    return 0 < int(free.sum()) <= FEW * len(point.u)


def working_set(problem, point):
    """Multipliers worth moving: those that are free, and as many again whose gradients are
    the next to turn. None while they are many.
    """
    if not few_are_free(problem, point):
        return None
    free = unbound(point.u, point.gradient, problem.lower, problem.upper)
    distance = namespace(point.u).where(free, 0.0, abs(point.gradient))
    nearest = min(2 * int(free.sum()), len(free) - 1)
    return to_index(distance <= _nth_smallest(distance, nearest))


def _nth_smallest(values, n):
    return values.kthvalue(n)[0] if is_torch(values) else np.partition(values, n)[n]


def unbound(u, g, lower, upper):
    """Where no bound is in the way of the gradient."""
    return ~(((u <= lower) & (g <= 0)) | ((u >= upper) & (g >= 0)))


def placed(values, index, parts):
    """``values`` with ``parts`` in the places ``index``, in its own memory."""
    values[index] = parts
    return values


def as_iterate(point, evaluations):
    primal, violation = point.primal
    extra = {"rank": point.rank, "evaluations": evaluations}
    return Iterate(primal, point.dual, point.primal_point, point.u, violation, extra)
