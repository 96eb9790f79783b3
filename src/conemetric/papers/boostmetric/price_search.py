"""BoostMetric's hinge program by a search for the price of trace at which its optimum is one.

With S = M / rho the program is a ratio, and its largest value lambda, if positive, is the price w at which

    g(w) = min over S of w Tr S + sum_r v_r max(0, 1 - A(S)_r)  =  1          S psd   (papers.boostmetric.soft_margin)

as max over M of [rho - sum_r v_r max(0, rho - A(M)_r)] - lambda Tr M is zero (Dinkelbach 1967). g is
concave and increasing. Any S bounds lambda from below and any u of the dual set from above, so that
every step of the solver of g, proximal points continued from one price to the next, gives bounds on
the program itself. When its gap is small against that of the program, the next price is taken
between these, near the lower: the solution at lambda has sum u = 1, and u at other prices is scaled or
filled up.

Where classes overlap lambda may be negative. A multiple c of the trace added to all margins adds c to
every value of a metric of trace one, so lambda + c is then the price: c is twice the best value so far.

The paper adds a rank-one learner in each iteration, by a linear program over all of them: measured
on breast cancer, 48 seconds where this takes 3, and on digits no solution in 400 where this takes 2.
"""

import math
from dataclasses import dataclass

from ...engine.certificate import relative_gap
from ...engine.proximal_point import ProximalPoint
from ...engine.solver import Iterate, Solver, Steps
from .soft_margin import SoftMarginProgram

SHARE = 0.7  # gap of a price's program, relative to that of all, at which the price changes
TIGHTER = 0.3  # that share, where a price has improved neither bound
TOWARDS_UPPER = 0.35  # where the next price lies between the bounds, on a scale of logarithms
FALL = 0.5  # of the price, while the best value is zero
SHIFT = 2.0  # of the margins, in units of the best value, if that is negative


@dataclass(frozen=True)
class PriceSearch(Solver):
    """See the module docstring."""

    takes_start = False
    solves = SoftMarginProgram

    def steps(self, problem: SoftMarginProgram, start: None) -> Steps:
        # in float64: an optimum of zero, relative to which gaps count, has no other scale
        problem = problem.exact
        first, u = problem.start()
        bounds = problem.bounds(first, u)
        lower = -bounds.primal
        upper = -bounds.dual
        yield Iterate(bounds.primal, bounds.dual, first, u, extra={"rank": first.shape[1]})
        inner = ProximalPoint(tol=0.0)
        state = None
        share = SHARE
        last = math.nan
        while upper > lower:
            shift = max(0.0, -SHIFT * lower)
            price = _price(lower + shift, upper + shift)
            share = SHARE if price != last else TIGHTER * share
            last = price
            enough = share * relative_gap(-lower - shift, -upper - shift)
            for point in inner.steps(problem.priced(price, shift), state):
                state = point.state
                u = problem.feasible(point.dual_point)
                bounds = problem.bounds(point.primal_point, u)
                lower = max(lower, -bounds.primal)
                upper = min(upper, -bounds.dual)
                extra = {"rank": point.extra["rank"], "price": price}
                yield Iterate(bounds.primal, bounds.dual, point.primal_point, u, extra=extra)
                if relative_gap(point.primal, point.dual) <= enough:
                    break
            else:
                return  # no further progress in this precision


def _price(lower: float, upper: float) -> float:
    """The next price between bounds, of which the lower may be zero."""
    if lower > 0:
        return lower ** (1 - TOWARDS_UPPER) * upper**TOWARDS_UPPER
    return FALL * upper
