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

from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

import numpy as np

from ..core.arrays import Array
from ..core.vectors import total
from .curvature_memory import Box, CurvatureMemory, steepest, unbound
from .dual_rounds import Ascent, Rounds, as_iterate
from .newton_direction import dot, newton_direction
from .program import Evaluation, SpectralDual
from .solver import SAVE_EVERY, Infeasible, Solver, Steps

ARMIJO = 1e-4  # share of the predicted rise that a step must reach (Nocedal & Wright, 3.1)
SHORTEST = 0.1  # share of a step that fell, which the next one is at least
MAX_TRIALS = 40  # shorter or longer ones of one step
MIN_SLOPE_RATIO = 0.99  # slope after a whole step over that before, if the step should double
NOISE = 1e3  # roundings of D, within which slopes decide instead of values
NEWTON_FROM = 5  # evaluations after which Newton directions are used, if they pay


class Step(NamedTuple):
    """Where a step led (None: nowhere higher), the memory that holds it, and the evaluations it took."""

    point: Evaluation | None
    memory: CurvatureMemory
    evaluations: int


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
        now = self._first(problem, start)
        rounds = Rounds(self, problem)
        for number in count():
            iterate = as_iterate(now.point, now.evaluations)
            reason = problem.refutation(now.point)
            if reason:
                raise Infeasible(reason, iterate)
            yield iterate
            if self._is_to_save(problem, number):
                now = self._saved(problem, now)
            choice = rounds.chosen(now.point, now.evaluations, number)
            if choice is not None:
                now = yield from rounds.steps(choice, now, number)
                continue
            step = self.step(problem, now)
            if step.point is None:
                return
            now = Ascent(step.point, step.memory, now.evaluations + step.evaluations)

    def step(self, problem: SpectralDual, now: Ascent) -> Step:
        """Return a step along a quasi-Newton or Newton direction or, if none rises, the gradient."""
        space = now.memory.box.space
        direction, tried = self._direction(problem, now)
        if direction is not None:
            step = self._search(problem, now.point, direction, now.memory)
            tried += step.evaluations
            if step.point is not None:
                return step._replace(evaluations=tried)
        memory = CurvatureMemory(now.memory.box, self.memory)
        direction = space.map(steepest, *memory.box.at(now.point))
        slope = space.sum(dot, now.point.gradient, direction)
        if not 0 < slope < np.inf:
            return Step(None, memory, tried)
        curvature = problem.curvature(direction, now.point.u)
        if curvature > 0:
            # where a parabola with this slope and at least the curvature of D here is highest
            direction = direction * (slope / curvature)
        step = self._search(problem, now.point, direction, memory)
        return step._replace(evaluations=tried + step.evaluations)

    def _direction(self, problem: SpectralDual, now: Ascent) -> tuple[Array | None, int]:
        """Return a direction of ascent, if one is known, and the evaluations that finding it took."""
        if problem.interior and now.evaluations >= NEWTON_FROM:
            box = now.memory.box
            free = box.space.map(unbound, *box.at(now.point))
            return newton_direction(problem, now.point, free)
        return now.memory.direction(now.point), 0

    def _first(self, problem: SpectralDual, start: Array | None) -> Ascent:
        """Return where an earlier process stopped, or the better of ``start`` and the program's own."""
        operator = problem.operator
        memory = CurvatureMemory(Box.of(problem), self.memory)
        if self.save_every:
            resumed = operator.space.resume(operator, "u", "evaluations")
            if resumed is not None:
                return Ascent(problem.evaluate(resumed["u"]), memory, resumed["evaluations"])
        cold = problem.start()
        if start is None:
            return Ascent(cold, memory, 1)
        # those of another program, with other weights, can be so bad that no step leads away
        warm = problem.evaluate(problem.project(operator.constraint_vector(start)))
        better = warm if warm.dual > cold.dual else cold
        return Ascent(better, memory, 2)

    def _is_to_save(self, problem: SpectralDual, number: int) -> bool:
        if not (problem.operator.space.saves_state and self.save_every):
            return False
        return number > 0 and number % self.save_every == 0

    def _saved(self, problem: SpectralDual, now: Ascent) -> Ascent:
        """Return the same point, read back from where it was saved, without curvature pairs."""
        state = problem.operator.space.save_state(u=now.point.u, evaluations=now.evaluations)
        memory = CurvatureMemory(now.memory.box, self.memory)
        return Ascent(now.point.moved(state["u"]), memory, now.evaluations)

    def _search(
        self, problem: SpectralDual, point: Evaluation, direction: Array, memory: CurvatureMemory
    ) -> Step:
        """Return the step to a point of the projected arc u + t d that rises enough, if there is one.

        t = 1, 2, 4, ..., or where D falls the maximiser of a parabola. If the rise is lost in the
        rounding of D, slopes decide instead of values (Hager & Zhang 2005). If the slope hardly falls
        over a whole step, the step doubles: the direction is poorly scaled, or the dual has no bound.
        """
        noise = NOISE * problem.operator.eps * abs(point.dual)
        best = Step(None, memory, 0)
        t = 1.0
        for tried in range(1, MAX_TRIALS + 1):
            u = problem.project(point.u + direction * t)
            trial = problem.evaluate(u, point.rank, total(dot, point.gradient, u - point.u))
            rise = trial.dual - point.dual
            (slope,) = trial.requested_totals
            # doubling has passed the maximum: the last step that rose is the one to take
            if best.point is not None and not rise > best.point.dual - point.dual:
                break
            # clipped to the box it leads downhill (or is nan): `step` goes on with the gradient
            if not slope > 0:
                return Step(None, memory, tried)
            risen = rise >= ARMIJO * slope and rise > noise
            if risen or abs(rise) <= noise:
                # one visit to the vectors gives the slope and the Gram matrix of the next direction
                extended = memory.extended(point, trial)
                along = total(dot, trial.gradient, u - point.u)
                slope_there, gram = trial.measure(along, extended.gram(trial))
                # the Armijo condition of a parabola with these slopes: it rises by their mean
                if risen or slope_there >= (2 * ARMIJO - 1) * slope:
                    best = Step(trial, replace(extended, products=gram), tried)
                    if t < 1 or slope_there < MIN_SLOPE_RATIO * slope:
                        break
                    t *= 2
                    continue
            # t times the share s at which slope s - (slope - rise) s^2 is largest; a rise that is
            # too small counts as none, and halves t
            t *= max(SHORTEST, 0.5 * slope / (slope - min(rise, 0.0)))
        return best._replace(evaluations=tried)
