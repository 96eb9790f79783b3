"""Rounds of a dual ascent in a cheaper program.

Most of the way to an optimum needs neither all multipliers nor all digits. A round is many
steps of the program restricted to the multipliers that are free or nearly so, the others
kept at their bounds (`FrobeniusProgram.restricted`; a few percent of the triplets of a
large set), of the program in single precision, or of both. It ends when the gap of that
program is a part of the gap of the whole; then all is evaluated in the program itself,
which alone is claimed, and the next round chooses anew. On the few multipliers of a round
the primal points met are mixed (`problems.mixture`).
"""

from dataclasses import replace

import numpy as np

from ..core.arrays import is_scalar, is_torch, like, namespace, on_device, to_index
from ..problems.mixture import Mixture
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
        self.mixture = None

    def chosen(self, point, evaluations, iterations):
        """(multipliers that should move in a round, or None for all; whether in single
        precision); None where a step of the program itself is due, ``iterations`` of these
        being behind.
        """
        if not self.possible or self.stuck or self._room(iterations) < SHORTEST:
            self.stuck = False
            return None
        index = working_set(self.problem, point) if evaluations >= FEW_FROM else None
        single = self.single and self._gap(point) > 3 * FINEST
        return (index, single) if single or index is not None else None

    def _room(self, iterations):
        """How many of the solver's are left after ``iterations`` of the program itself."""
        return self.solver.max_iter - iterations - self.n_iterations

    def _gap(self, point):
        primal = point.primal[0]
        return relative_gap(
            primal if self.mixture is None else min(primal, self.mixture.value), point.dual
        )

    def steps(self, index, single, point, memory, evaluations, iterations):
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
        mixture = None if index is None else self._mixture_within(part, index, inner)
        longest = min(LONGEST, self._room(iterations) - SHORTEST + 1)  # the whole comes after
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
            inner, mixture = accepted, mixture and mixture.joined(accepted)
            self.n_iterations += 1
            if index is None:
                yield self._rounded(inner, evaluations)
            else:
                yield as_iterate(point, evaluations)
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

    def _mixture_within(self, part, index, inner):
        if self.mixture is None:
            return Mixture.of(part, inner.matrix, inner.margins)
        parts = self.mixture.matrix, self.mixture.margins[index]
        return Mixture.of(part, *(like(each, inner.u) for each in parts)).joined(inner)

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

    def _mixed(self, matrix, whole, evaluations):
        """The mixture judged by all constraints, with the bound at the end of the round."""
        matrix = like(matrix, whole.u)
        factor = self.problem.primal_point(matrix)
        self.mixture = Mixture.of(self.problem, matrix, self.problem.margins_of(factor))
        iterate = Iterate(self.mixture.value, whole.dual, factor, whole.u)
        return replace(iterate, extra={"rank": whole.rank, "evaluations": evaluations})

    def _lifted(self, u, index, moved):
        """u with what has ``moved``, those at a bound in single precision being at it."""
        if moved.dtype != u.dtype:
            upper = self.problem.upper
            if index is not None and not is_scalar(upper):
                upper = upper[index]
            moved = like(moved, u)
            moved = namespace(u).where(moved >= upper * (1 - AT_BOUND), upper, moved)
        return moved if index is None else placed(u + 0, index, moved)


def _fits_single(problem):
    """Whether there are digits to save, and no row too large or small to do without them."""
    sizes = problem.sizes
    if problem.operator.eps > 1e-10 or is_scalar(sizes):
        return False
    return float(sizes.max()) < WITHIN and float(sizes.min()) > 1 / WITHIN


def few_are_free(problem, point):
    """Whether most multipliers stay at their bounds, at least for now."""
    return _are_few(_free(problem, point))


def _free(problem, point):
    return unbound(point.u, point.gradient, problem.lower, problem.upper)


def _are_few(free):
    return 0 < int(free.sum()) <= FEW * len(free)


def working_set(problem, point):
    """Multipliers worth moving: those that are free, and as many again whose gradients are
    the next to turn. None while they are many.
    """
    free = _free(problem, point)
    if not _are_few(free):
        return None
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
