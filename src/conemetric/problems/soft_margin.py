"""The BoostMetric program with the hinge loss (Shen et al. 2012, eqs. 7 and 10),
written as a minimisation.

    P(M) = -max_rho [ rho - v sum_r max(0, rho - A(M)_r) ],   M psd, Tr M = 1
    D(u) = -lambda_max(A*(u)),                                0 <= u <= v, sum u = 1

The best rho for given margins is their order statistic number 1/v, so P(M) is minus the
mean of the 1/v smallest margins. Any u of the dual set bounds the optimum, P(M) >=
D(u). v m >= 1 is needed, or rho could grow without limit: v = 1/m is the mean margin, v
>= 1 the smallest one.
"""

import numpy as np
from scipy import optimize

from .. import spectral
from ..arrays import float64, to_numpy
from .base import Bounds, Problem


class SoftMarginProgram(Problem):
    """Soft-margin metric of trace one; see the module docstring.

    Parameters
    ----------
    operator : Operator
        One row per triplet.
    v : float
        Price of one unit of slack, at least 1 / (number of triplets).
    """

    def __init__(self, operator, v):
        m = operator.n_constraints
        if v * m < 1:
            raise ValueError(
                f"v={v:g} is below 1/m for m={m} triplets: the hinge program has no maximum; give "
                f"v >= {1 / m:.3g}."
            )
        self.operator, self.v = operator, float(v)

    def start(self):
        """Equal multipliers."""
        return self.operator.empty_constraint_vector() + 1 / self.operator.n_constraints

    def value(self, margins):
        """P at a metric of trace one with these margins."""
        margins = np.sort(to_numpy(margins).astype(np.float64))
        rho = margins[min(int(1 / self.v), len(margins) - 1)]
        return float(self.v * np.maximum(rho - margins, 0).sum() - rho)

    def restricted(self, H):
        """The program over M = sum_j w_j z_j z_j', given the margins H[j] of each z_j
        z_j': a linear program, solved by HiGHS.

        Returns
        -------
        weights : array (J,)
        u : array (m,)
        dual : float
            -max_j H[j]'u, which is above D(u) until the columns suffice.

        None where no method of HiGHS solves it.
        """
        J, m = H.shape
        size = float(abs(H).max()) or 1.0  # HiGHS has absolute tolerances
        for method in ("highs", "highs-ipm"):
            result = optimize.linprog(
                np.append(np.zeros(m), 1.0),
                A_ub=np.column_stack([H / size, -np.ones(J)]),
                b_ub=np.zeros(J),
                A_eq=np.append(np.ones(m), 0.0)[None],
                b_eq=[1.0],
                bounds=[(0.0, self.v)] * m + [(None, None)],
                method=method,
            )
            if result.success:
                weights = np.maximum(-result.ineqlin.marginals, 0)
                return weights / weights.sum(), result.x[:m], -result.fun * size
        return None

    def feasible(self, u):
        """``u`` moved into the dual set: clipped to [0, v], then scaled down or filled
        up to sum one.
        """
        u = self.operator.xp.clip(u, 0, self.v)
        missing = 1 - float(u.sum())
        return (
            u / (1 - missing)
            if missing < 0
            else u + missing * (self.v - u) / float((self.v - u).sum() or 1.0)
        )

    def certify(self, primal_point, dual_point):
        exact, L = self.exact, float64(primal_point)
        leading, _ = spectral.leading_eigenpair(
            exact.operator.adjoint(exact.feasible(float64(dual_point)))
        )
        return Bounds(
            exact.value(exact.operator.forward_factor(L / float((L * L).sum()) ** 0.5)), -leading
        )
