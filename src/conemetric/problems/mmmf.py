"""Maximum-margin matrix factorisation in its eigenvalue form (Srebro et al. 2005; Ying
& Li 2012, equations 27 and 28).

    primal   min over X of sum_r max(0, b_r - s_r X[i_r, a_r]) + gamma ||X||_*
    dual     max b'u,  0 <= u <= 1,  ||W(u)||_2 <= gamma         W(u) = sum_r u_r s_r e_i e_a', sparse

With M = L L' = [[A, X], [X', B]] it is the eigenvalue program with c = 1 over
`EntryOperator`. Since ||X||_* is *half* the least Tr A + Tr B, its w is gamma / 2: the
paper's gamma Tr M would be 2 gamma ||X||_*.

Observations of levels 0, 1, ..., R-1 become one constraint per threshold theta_1 < ...
< theta_{R-1}: s = 1 and b = 1 + theta for a level above it, s = -1 and b = 1 - theta
for one below. Two levels and theta = 0 are the +-1 observations of the paper.
"""

import numpy as np

from ..operators.entries import EntryOperator
from .eigenvalue import EigenvalueProgram


class MMMFProgram(EigenvalueProgram):
    """See the module docstring.

    Parameters
    ----------
    rows, columns, levels : integer arrays (n_observed,)
    shape : (int, int)
    thresholds : increasing array (R - 1,)
    gamma : float
    """

    def __init__(self, rows, columns, levels, shape, thresholds, gamma):
        above = levels[:, None] > np.arange(len(thresholds))
        signs = np.where(above, 1.0, -1.0)
        repeat = len(thresholds)
        operator = EntryOperator(
            np.repeat(rows, repeat), np.repeat(columns, repeat), signs.ravel(), shape
        )
        super().__init__(operator, gamma / 2, 1.0, target=(1 + signs * thresholds).ravel())
