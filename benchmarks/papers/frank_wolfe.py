"""Frank-Wolfe on the smoothed max-min game of an eigenvalue program: the algorithm of
Ying & Li (2012), tables 1 and 2, kept here to compare with.

    maximise  f(S, xi) = min_r (xi_r + A(S)_r)   over   w Tr S + c'xi = 1,  S psd,  xi >= 0        (no xi where c = inf)
    f_mu(S, xi) = -mu log sum_r exp(-(xi_r + A(S)_r) / mu),    u = softmax(-(xi + A(S)) / mu) its weights on the constraints
    f(S, xi) <= f* <= max(lambda_max(A*(u)) / w, max_r u_r / c_r)    for every u in the simplex: the certificate, unsmoothed

Step t moves by 2/(t+1) towards the best vertex against u: v v'/w with v the leading
eigenvector of A*(u), or the entry of xi whose u / c is largest. It is O(1/t) on the smoothed
problem, and its certified gap on the true one is still several percent after 1,000 steps;
the library solves the same programs by `conemetric.engine.proximal_point`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from conemetric import DMLEig
from conemetric.core import spectral
from conemetric.core.arrays import like
from conemetric.engine.eigenvalue_program import EigenvalueProgram
from conemetric.engine.losses import LogSumExp
from conemetric.engine.solver import Iterate, Solver
from conemetric.papers.eigenvalue.program import DMLEigProgram


@dataclass(frozen=True)
class FrankWolfe(Solver):
    """See the module docstring; ``mu`` is the smoothing, in the units of the margins (the
    paper: 1e-4).
    """

    mu: float = 1e-4
    takes_start: ClassVar[bool] = False
    solves: ClassVar[type] = EigenvalueProgram

    def steps(self, problem, start):
        operator, xp = problem.operator, problem.operator.xp
        w, D, slack_penalty, slack = (
            problem.trace_weight,
            operator.n_features,
            problem.slack_penalty,
            not problem.hard,
        )
        L = xp.eye(D, dtype=operator.dtype, device=operator.reference.device) / (w * D) ** 0.5
        xi, v, t = operator.empty_constraint_vector(), None, 0
        margins = operator.forward_factor(L)
        while True:
            u = xi + 1 / operator.n_constraints
            if t > 0:
                _, u, _ = LogSumExp().evaluate((xi + margins) / self.mu)
            largest, v = spectral.leading_eigenpair(operator.adjoint(u), v)
            most = float((u / slack_penalty).max())
            bound = max(largest / w, most) if slack else largest / w
            value = float((xi + margins).min())
            primal, dual = _bounds(problem, value, bound)
            yield Iterate(primal, dual, L / value**0.5 if value > 0 and slack else L, u)
            t += 1
            step = 2 / (t + 1)
            L, xi, margins = (1 - step) ** 0.5 * L, (1 - step) * xi, (1 - step) * margins
            if not slack or largest / w >= most:
                atom = (v / w**0.5)[:, None]
                margins = margins + step * operator.forward_factor(atom)
                L = xp.concat([L, step**0.5 * atom], 1)
                if L.shape[1] > 2 * D:
                    L = spectral.canonical_factor(L)
            else:  # shared where several constraints weigh most
                leading = u / slack_penalty == most
                xi = xi + step * leading / (slack_penalty * leading.sum())


def _bounds(problem, value, bound):
    """Primal and dual value of the program at a point of value ``value`` in the game, given an
    upper bound on the game.
    """
    if isinstance(problem, DMLEigProgram):
        return -value, -bound
    return (1 / value if value > 0 else math.inf), 1 / bound


class DMLEigByFrankWolfe(DMLEig):
    """`DMLEig` by the paper's algorithm."""

    def _solve(self, problem, whitened, dtype):
        solver, solved = FrankWolfe(self.tol, self.max_iter), problem.operator.reference
        return self._run(solver, problem, keep=self._keep(like(solved, solved, dtype), whitened))
