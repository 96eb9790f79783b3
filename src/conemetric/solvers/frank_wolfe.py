"""Frank-Wolfe on the smoothed max-min game of an eigenvalue program: the algorithm of
Ying & Li (2012), tables 1 and 2.

    maximise  f(S, xi) = min_r (xi_r + A(S)_r)   over   w Tr S + c'xi = 1,  S psd,  xi >= 0        (no xi where c = inf)
    f_mu(S, xi) = -mu log sum_r exp(-(xi_r + A(S)_r) / mu),    u = softmax(-(xi + A(S)) / mu) its weights on the constraints
    f(S, xi) <= f* <= max(lambda_max(A*(u)) / w, max_r u_r / c_r)    for every u in the simplex: the certificate, unsmoothed

Step t moves by 2/(t+1) towards the best vertex against u: v v'/w with v the leading
eigenvector of A*(u), or the entry of xi whose u / c is largest. Only that eigenvector is computed
(warm-started Lanczos where D is large), and the margins are carried along, one rank-one
forward per step.

This is the paper's baseline. It is O(1/t) on the smoothed problem, and its certified
gap on the true one is still several percent after 1,000 steps: use
`solvers.proximal_point` to reach a tolerance.

Stops when (primal - dual) / max(|primal|, |dual|) <= tol.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from ..core import spectral
from ..core.vectors import Total, greatest
from ..problems.losses import LogSumExp
from .base import SETTLE_EVERY, Iterate, Solver

LEAST = 1e-8  # tol below which the smoothing no longer follows it


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """See the module docstring.

    Parameters
    ----------
    mu : float, default=None
        Smoothing, in the units of the margins. None takes epsilon / (4 log m) of the
        paper's theorem 7 with epsilon = tol times the value of equal weights.
    """

    mu: float | None = None
    takes_start: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = (
        "operator",
        "trace_weight",
        "price",
        "hard",
        "game_bounds",
    )
    remedy: ClassVar[str] = "use the proximal-point solver, raise max_iter or loosen tol"

    def steps(self, problem, start):
        operator, space, xp = problem.operator, problem.operator.space, problem.operator.xp
        w, m, D = problem.trace_weight, operator.n_constraints, operator.n_features
        price, slack = problem.price, not problem.hard
        # the start weighs so little that only the first vertex counts (the step of t =
        # 1 is a whole one)
        L = xp.eye(D, dtype=operator.dtype, device=operator.reference.device) / (w * D) ** 0.5
        xi, mu, t, v = operator.empty_constraint_vector(), self.mu, 0, None
        names = "L", "xi", "mu", "t"
        resumed = space.resume(operator, *names)
        if resumed is not None:
            L, xi, mu, t = (resumed[name] for name in names)
        margins = operator.forward_factor(L)
        while True:
            u = xi + 1 / m
            if t > 0:
                scaled = space.map(_scaled_sum, xi, margins, mu=mu)
                _, u, _ = LogSumExp().evaluate(scaled, space)
            adjoint, ((most, n_most), least) = operator.adjoint_and(
                u,
                Total(_most, (u, price), join=_join_most),
                greatest(_negative_least, xi, margins),
            )
            largest, v = spectral.leading_eigenpair(adjoint, v)
            bound = max(largest / w, most) if slack else largest / w
            mu = mu or max(self.tol, LEAST) * bound / (4 * math.log(max(m, 2)))
            value = -least
            primal, dual = problem.game_bounds(value, bound)
            yield Iterate(primal, dual, L / value**0.5 if value > 0 and slack else L, u)
            t += 1
            step = 2 / (t + 1)
            L = (1 - step) ** 0.5 * L
            if not slack or largest / w >= most:
                atom = (v / w**0.5)[:, None]
                xi = space.map(_shrunk, xi, step=step)
                margins = space.map(_towards, margins, operator.forward_factor(atom), step=step)
                L = xp.concat([L, step**0.5 * atom], 1)
                if L.shape[1] > 2 * D:
                    L = spectral.canonical_factor(L)
            else:  # shared where several constraints weigh most
                xi = space.map(_slackened, xi, u, price, step=step, most=most, n_most=n_most)
                margins = space.map(_shrunk, margins, step=step)
            if space.settles and t % SETTLE_EVERY == 0:
                xi = space.settle(xi=xi, L=L, mu=mu, t=t)["xi"]
                margins = operator.forward_factor(L)


# ---- what is mapped and summed over the blocks of multipliers


def _most(u, price):
    """The largest u / c, and how many there are of it."""
    most = (u / price).max()
    return most, (u / price == most).sum()


def _join_most(a, b):
    if a[0] == b[0]:
        return a[0], a[1] + b[1]
    return max(a, b)


def _negative_least(xi, margins):
    return -(xi + margins).min()


def _shrunk(values, step):
    return (1 - step) * values


def _towards(margins, others, step):
    return (1 - step) * margins + step * others


def _slackened(xi, u, price, step, most, n_most):
    return (1 - step) * xi + step * (u / price == most) / (price * n_most)


def _scaled_sum(xi, margins, mu):
    return (xi + margins) / mu
