"""Column generation over secants (NuMax, algorithm 2), finished only when a scan of
every pair finds none violated.

The program has one constraint per pair of points, of which a few thousand matter. A
round

    1. solves the program over the active secants by ADMM, from the P and the
       multipliers it has, only as far as the violations last seen elsewhere deserve
       (their size times `INNER`);
    2. scans: of every row of every tile of pairs, the worst secant at either bound
       (`operators.secants`), tile by tile until it has twice the offenders it needs,
       and goes on from there in the next round;
    3. drops active secants far from their bounds and without weight, if the dual bound
       rose, and adds offenders: half the worst, half drawn from the rest, since the
       worst are much alike.

The restricted program has fewer constraints, so the dual bound of step 1 is one on the
whole program's optimum, and Tr P is one from above, up to the violation, once the scan
is complete. Tiles are of points in random order, so the first ones are a sample of the
rest. Scans begin in float32; one that finds nothing above tol among all pairs is
repeated in float64, and from then on scans are in float64. Only a scan of every pair in
float64 counts as complete.

Step 1 keeps a margin inside the bounds, sized so that it costs a quarter of tol in the
objective: secants never seen, which are like those seen, then rarely need another
round. At the end, eigenvalues of P no larger than the slack left in the violation are
cut: by Weyl's inequality no secant moves by more than the largest of them.

Stops when the gap and the violation over every secant, in units of delta, are within
tol.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..arrays import like, to_index, zeros
from ..problems.near_isometry import Multipliers
from .admm import ADMM
from .base import Iterate, Solver, relative_gap

INNER = 0.2
# multipliers below this share of the largest do not keep a secant active that is inside
# its bounds
NEGLIGIBLE = 0.1
SINGLE_FROM = 2000  # points; with fewer, every scan is in float64


@dataclass(frozen=True)
class SecantGeneration(Solver):
    """Column generation with ADMM inside; ``start`` is a pair (factor of P, Multipliers).

    Attributes
    ----------
    first, add : int
        Random secants to begin with; secants added in a round (or half the active ones,
        when that is more).
    keep : float
        Active secants within this distance of a bound, in units of delta, stay; all do
        while there are no more than ``first``.
    inner : ADMM
    seed : int
    """

    tol: float = 1e-3
    max_iter: int = 200
    first: int = 1000
    add: int = 1000
    keep: float = 0.03
    inner: ADMM = field(default_factory=ADMM)
    seed: int = 0
    requires: ClassVar[tuple[str, ...]] = ("secants", "restrict", "delta")

    def _steps(self, problem, start):
        secants, xp, delta, tol = problem.secants, problem.secants.xp, problem.delta, self.tol
        rng = np.random.default_rng(self.seed)
        keys, point = self._begin(secants, start, rng)
        points = like(rng.permutation(secants.n_points), secants.X, xp.int64)
        precision, tile = xp.float32 if secants.n_points >= SINGLE_FROM else xp.float64, 0
        inner, worst, goal, margin, steps, best = self.inner, 1.0, 0.5 * tol, 0.5 * tol, 0, 0.0
        stuck = np.inf  # violation or gap when the inner solver last gave up
        # a violation of delta costs the objective about this part of itself
        unit = max(1.0, delta / (1 - delta))
        while True:
            active = problem.restrict(keys, margin=margin)
            share = INNER * worst if worst > tol else 0.0
            allowed = max(share, goal)
            solution, taken = _solve_active(inner, active, point, allowed, max(unit * share, goal))
            inner, steps = replace(inner, beta=solution.extra["beta"]), steps + taken
            factor, y = solution.primal_point, solution.dual_point
            weight = float(abs(y).sum())
            # the same multipliers, on the bounds without margin
            dual = solution.dual - margin * delta * weight
            needed = max(self.add, len(keys) // 2)
            # active secants are violated by no more than is allowed
            enough = 2 * needed, max(tol, allowed)
            while True:
                scan = secants.scan(factor, delta, precision, points, tile, enough)
                fresh = self._offenders(scan, secants, keys, factor, delta, needed, rng)
                last = precision == xp.float64
                if last or len(fresh) > 0 or allowed > goal:
                    break
                precision = xp.float64
            tile = scan.next_tile or 0
            certain = last or len(fresh) > 0  # single precision may see offenders that are none
            worst = violation = scan.worst if certain else 0.0
            found = last and scan.next_tile is None and worst <= tol
            if found:
                factor, violation = _cut(factor, worst, tol, delta)
            primal = float((factor * factor).sum())
            if certain:
                extra = {
                    "rank": factor.shape[1],
                    "active": len(keys),
                    "steps": steps,
                    "near_duplicates": scan.n_near_duplicates,
                }
                yield Iterate(primal, dual, factor, Multipliers(keys, y), violation, extra)
            if last and len(fresh) == 0 and taken == inner.max_iter:
                error = max(violation, abs(relative_gap(primal, dual)))
                if error > 0.9 * stuck:
                    return
                stuck = error
            goal = goal / 2 if found and allowed == goal else goal
            stay = active.slack(active.operator.forward_factor(factor)) <= self.keep * delta
            stay |= abs(y) > NEGLIGIBLE * abs(y).max()
            # dropping without progress could go in circles
            stay |= len(keys) <= self.first or dual <= (1 + tol) * best
            keep, best = to_index(stay), max(best, dual)
            keys, y = xp.concat([keys[keep], fresh]), xp.concat([y[keep], zeros(len(fresh), y)])
            point = factor, y
            margin = (
                min(0.5 * tol, 0.25 * tol * solution.primal / (delta * weight))
                if weight > 0
                else margin
            )

    def _begin(self, secants, start, rng):
        """Keys to begin with, and the point of the start given, its multipliers
        spread over them.
        """
        keys = secants.sample(self.first, rng)
        if start is None:
            return keys, None
        factor, multipliers = start
        keys = secants.xp.unique(secants.xp.concat([keys, multipliers.keys]))
        y = zeros(len(keys), secants.X)
        y[secants.xp.searchsorted(keys, multipliers.keys)] = like(multipliers.values, y)
        return keys, (like(factor, y), y)

    def _offenders(self, scan, secants, keys, factor, delta, limit, rng):
        """Keys to add: violated by more than tol, not active yet, confirmed by
        differences in float64.
        """
        xp = secants.xp
        found = scan.keys[scan.excess > self.tol]
        found = found[~xp.isin(found, keys)]
        if len(found) > limit:
            others = np.sort(
                rng.choice(np.arange(limit // 2, len(found)), limit - limit // 2, replace=False)
            )
            found = xp.concat([found[: limit // 2], found[like(others, found)]])
        found = xp.unique(found)
        return found[secants.excess(found, factor, delta) > self.tol] if len(found) else found


def _solve_active(inner, active, point, violation, gap):
    """The first ADMM iterate within this violation and relative gap (or the last one),
    and the steps it took.
    """
    for taken, iterate in enumerate(inner._steps(active, point), 1):
        close = (
            abs(relative_gap(iterate.primal, iterate.dual)) <= gap
            and iterate.violation <= violation
        )
        if close or taken == inner.max_iter:
            return iterate, taken
    raise AssertionError("ADMM ends only when it is told to")


def _cut(factor, worst, tol, delta):
    """Drop the trailing columns of the factor whose eigenvalues the violation has room for."""
    eigenvalues = (factor * factor).sum(0)
    room = 0.9 * (tol - worst) * delta
    rank = max(1, int((eigenvalues > room).sum()))
    dropped = float(eigenvalues[rank:].max()) if rank < len(eigenvalues) else 0.0
    return factor[:, :rank], worst + dropped / delta
