"""Column generation over secants (NuMax, algorithm 2), until a scan finds none violated.

The program has one constraint per pair of points, of which a few thousand matter. A round

    1. solves the program over the active secants by ADMM, from its last P and multipliers, only as
       far as the violations last seen elsewhere deserve (their size times `INNER`); its ratio of
       penalties falls if the gap closed before the violations, and grows if it closed after them.
       If that takes long, and there are few features, an interior-point method goes on;
    2. scans: of every row of every tile of pairs, the worst secant at either bound
       (`papers.numax.secants`), tile by tile until it has twice the offenders it needs, and goes on
       from there in the next round;
    3. drops active secants far from their bounds and without weight, if the dual bound rose, and
       adds offenders: half the worst, half drawn from the rest, since the worst are similar.

The restricted program has fewer constraints, so the dual bound of step 1 bounds the whole program
from below, and Tr P bounds it from above, up to the violation, once the scan is complete. Tiles are
of points in random order, so the first ones are a sample of the rest. Scans are in float32 until
one finds nothing above tol among all pairs; only a scan of every pair in float64 is complete.

Step 1 keeps a margin inside the bounds that costs a quarter of tol in the objective: then secants
never seen, which are similar to those seen, rarely need another round. At the end, eigenvalues of P
no larger than the slack left in the violation are cut: by Weyl's inequality no secant moves by more
than the largest of them.

Stops when the gap and the violation over every secant, in units of delta, are within tol.
"""

from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.random import Generator

from ...core import spectral
from ...core.arrays import Array, Pair, like, to_index, zeros
from ...core.blas import blas_threads_for
from ...engine.certificate import relative_gap
from ...engine.solver import Iterate, Solver, Steps
from .admm import ADMM
from .interior_point import IsometryPath
from .program import Multipliers, SecantIsometryProgram
from .secants import Scan

INNER = 0.2  # accuracy of a round, relative to the worst violation elsewhere
NEGLIGIBLE = 0.1  # share of the largest multiplier up to which a secant may be dropped
FEW = 2000  # active secants up to which none is: steps are cheap, and one too few costs many
SINGLE_FROM = 2000  # points; with fewer, every scan is in float64
GOAL = 0.5  # share of tol: the accuracy of the last rounds
MARGIN_COST = 0.25  # share of tol: what their margin costs
STUCK = 0.9  # share of the last error above which an exhausted inner solver has stalled
Start = tuple[Array, Multipliers] | None
# the ratio of ADMM's penalties: at first, in units of delta, and its limits
FIRST_RATIO = 5.0
LEAST_RATIO = 0.2
MOST_RATIO = 2.0
RATIO_FACTOR = 1.5  # its change between rounds
LAG = 3  # steps by which the gap or the violations lag behind, from which it changes
PATIENCE = 200  # steps of ADMM after which the interior-point method solves all rounds to come
SMALL = 2000  # entries of a symmetric matrix up to which it does
ROOM = 0.9  # share of the slack in the violation that cutting P may use


@dataclass(frozen=True)
class SecantGeneration(Solver):
    """Column generation with `ADMM` inside; ``start`` is a pair (factor of P, Multipliers).

    It begins with ``first`` random secants and adds ``add`` in a round (or half the active ones, if
    that is more). Active secants within ``keep``, in units of delta, of a bound stay; all do while
    there are no more than ``first``, or `FEW`.
    """

    tol: float = 1e-3
    max_iter: int = 200
    first: int = 1000
    add: int = 1000
    keep: float = 0.03
    seed: int = 0
    solves = SecantIsometryProgram

    def steps(self, problem: SecantIsometryProgram, start: Start) -> Steps:
        rng = np.random.default_rng(self.seed)
        active = _Active(self, problem, start, rng)
        scanner = _Scanner(self, problem, rng)
        stuck = np.inf  # violation or gap when the inner solver last gave up
        while True:
            active.solve()
            scan, offenders = scanner.look(active)
            # without offenders, what a scan in float32 found may be rounding
            certain = scanner.exact or len(offenders) > 0
            worst = scan.worst if certain else 0.0
            complete = scanner.exact and scan.next_tile is None
            finished = complete and worst <= self.tol
            factor = active.factor
            violation = worst
            if finished:
                factor, violation = _cut(factor, worst, self.tol, problem.delta)
            primal = float((factor * factor).sum())
            if certain:
                extra = {
                    "rank": factor.shape[1],
                    "active": len(active.keys),
                    "steps": active.steps,
                    "near_duplicates": scan.n_near_duplicates,
                }
                multipliers = Multipliers(active.keys, active.y)
                yield Iterate(primal, active.dual, factor, multipliers, violation, extra)
            if scanner.exact and len(offenders) == 0 and active.exhausted:
                error = max(violation, abs(relative_gap(primal, active.dual)))
                if error > STUCK * stuck:
                    return
                stuck = error
            active.renew(factor, offenders, worst, finished)


class _Active:
    """The active secants: the program over them, its solution, and which stay for the next round.

    ``y`` and ``dual`` are those of the last solve; ``dual`` bounds the whole program.
    """

    def __init__(
        self,
        options: SecantGeneration,
        problem: SecantIsometryProgram,
        start: Start,
        rng: Generator,
    ):
        self.options = options
        self.problem = problem
        self.inner: ADMM | IsometryPath = ADMM(rho=_within_limits(FIRST_RATIO * problem.delta))
        secants = problem.secants
        self.keys = secants.sample(options.first, rng)
        self.point: Pair | None = None
        if start is not None:
            factor, multipliers = start
            self.keys = secants.xp.unique(secants.xp.concat([self.keys, multipliers.keys]))
            y = zeros(len(self.keys), secants.reference)
            y[secants.xp.searchsorted(self.keys, multipliers.keys)] = like(multipliers.values, y)
            self.point = like(factor, y), y
        self.goal = self.margin = GOAL * options.tol
        self.worst = 1.0
        self.steps = 0
        self.best = 0.0
        # relative cost of a violation of delta in the objective
        self.unit = max(1.0, problem.delta / (1 - problem.delta))

    def solve(self) -> None:
        """Solve, as accurately as the violations last seen elsewhere deserve."""
        self.program = self.problem.restrict(self.keys, margin=self.margin)
        with blas_threads_for(self.program.dense_work):
            self._solve_program()

    def _solve_program(self) -> None:
        """Solve by ADMM, and by the interior-point method where that takes long."""
        share = 0.0
        if self.worst > self.options.tol:
            share = INNER * self.worst
        self.allowed = max(share, self.goal)
        small = self.program.operator.n_symmetric <= SMALL
        self.exhausted = True
        if isinstance(self.inner, ADMM):
            most = PATIENCE if small else self.inner.max_iter
            solution, lag = self._inner_solve(max(self.unit * share, self.goal), most)
            self.inner = _rebalanced(self.inner, solution.extra["beta"], lag)
        if self.exhausted and small:  # as accurate as the rank needs, which costs little
            self.inner = IsometryPath()
            solution, _ = self._inner_solve(self.goal * self.problem.delta, self.inner.max_iter)
        self.factor, self.y = solution.primal_point, solution.dual_point
        self.primal = solution.primal
        self.weight = float(abs(self.y).sum())
        # the same multipliers, on the bounds without margin
        self.dual = solution.dual - self.margin * self.problem.delta * self.weight

    def _inner_solve(self, gap: float, most: int) -> tuple[Iterate, int]:
        """Return the solution after ``most`` steps or less, and by how many steps the violation
        lagged behind the gap: those that only it needed, less those that only the gap needed.
        """
        lag = 0
        self.exhausted = True
        for solution in islice(self.inner.steps(self.program, self.point), most):
            self.steps += 1
            close = abs(relative_gap(solution.primal, solution.dual)) <= gap
            feasible = solution.violation <= self.allowed
            if close and feasible:
                self.exhausted = False
                break
            lag += int(close) - int(feasible)
        return solution, lag

    def renew(self, factor: Array, offenders: Array, worst: float, finished: bool) -> None:
        """Drop secants far from their bounds and without weight, and add the ``offenders``. The
        ``worst`` violation was seen elsewhere; ``finished`` says that it is within tol everywhere.
        """
        options = self.options
        delta = self.problem.delta
        xp = self.problem.secants.xp
        self.worst = worst
        # all constraints hold as well as asked, so only the gap is left
        if finished and self.allowed == self.goal:
            self.goal /= 2
        slack = self.program.slack(self.program.operator.forward_factor(factor))
        stay = (slack <= options.keep * delta) | (abs(self.y) > NEGLIGIBLE * abs(self.y).max())
        few = len(self.keys) <= max(options.first, FEW)
        stay |= few or self.dual <= (1 + options.tol) * self.best  # else it could go in circles
        self.best = max(self.best, self.dual)
        keep = to_index(stay)
        self.keys = xp.concat([self.keys[keep], offenders])
        self.point = factor, xp.concat([self.y[keep], zeros(len(offenders), self.y)])
        if self.weight > 0:
            # by their multipliers, bounds tighter by margin * delta cost margin * delta * sum |y|
            affordable = MARGIN_COST * options.tol * self.primal / (delta * self.weight)
            self.margin = min(GOAL * options.tol, affordable)


class _Scanner:
    """Scans the pairs of points, in random order, in single precision while that finds violations."""

    def __init__(self, options: SecantGeneration, problem: SecantIsometryProgram, rng: Generator):
        self.options = options
        self.problem = problem
        self.rng = rng
        secants = problem.secants
        xp = secants.xp
        self.points = like(rng.permutation(secants.n_points), secants.X, xp.int64)
        self.precision = xp.float64
        if secants.n_points >= SINGLE_FROM:
            self.precision = xp.float32
        self.tile = 0

    @property
    def exact(self) -> bool:
        """Whether scans are in float64."""
        return self.precision == self.problem.secants.xp.float64

    def look(self, active: _Active) -> tuple[Scan, Array]:
        """Scan from where the last scan ended until there are enough offenders: what was found, and
        the secants to add.
        """
        secants = self.problem.secants
        needed = max(self.options.add, len(active.keys) // 2)
        # active secants may be violated by as much as the solve allowed
        enough = 2 * needed, max(self.options.tol, active.allowed)
        while True:
            scan = secants.scan(
                active.factor,
                self.problem.delta,
                self.precision,
                points=self.points,
                first_tile=self.tile,
                enough=enough,
            )
            offenders = self._offenders(scan, active, needed)
            if self.exact or len(offenders) > 0 or active.allowed > active.goal:
                break
            # for good: float32 has found nothing that is violated in float64 too
            self.precision = secants.xp.float64
        self.tile = scan.next_tile or 0
        return scan, offenders

    def _offenders(self, scan: Scan, active: _Active, limit: int) -> Array:
        """Keys to add: violated by more than tol in float64, and not active yet."""
        secants = self.problem.secants
        tol = self.options.tol
        found = scan.keys[scan.excess > tol]
        found = found[~secants.xp.isin(found, active.keys)]
        if len(found) > limit:
            # the worst are similar to each other, so half are drawn from the rest
            rest = np.arange(limit // 2, len(found))
            others = np.sort(self.rng.choice(rest, limit - limit // 2, replace=False))
            found = secants.xp.concat([found[: limit // 2], found[like(others, found)]])
        found = secants.xp.unique(found)
        return found[secants.excess(found, active.factor, self.problem.delta) > tol]


def _within_limits(ratio: float) -> float:
    return min(MOST_RATIO, max(LEAST_RATIO, ratio))


def _rebalanced(inner: ADMM, beta: float, lag: int) -> ADMM:
    """Return ADMM for the next round, its ratio lower if violations lagged behind, else higher."""
    if lag >= LAG:
        change = 1 / RATIO_FACTOR
    elif lag <= -LAG:
        change = RATIO_FACTOR
    else:
        change = 1.0
    return replace(inner, beta=beta, rho=_within_limits(inner.rho * change))


def _cut(factor: Array, worst: float, tol: float, delta: float) -> tuple[Array, float]:
    """The factor without trailing columns that the violation has room for, and the new violation."""
    factor = spectral.canonical_factor(factor)
    eigenvalues = (factor * factor).sum(0)
    room = ROOM * (tol - worst) * delta
    rank = max(1, int((eigenvalues > room).sum()))
    if rank >= len(eigenvalues):
        return factor, worst
    # v'Pv of a unit vector falls by at most the largest eigenvalue dropped
    dropped = float(eigenvalues[rank:].max())
    return factor[:, :rank], worst + dropped / delta
