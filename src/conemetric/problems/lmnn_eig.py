"""The LMNN-eig program (Ying & Li 2012, equations 7 and 17).

    primal   min over M psd of (1 - gamma) sum_r w_r max(0, 1 - <C_r, M>) + gamma <X_S, M>      C_r = d_ik d_ik' - d_ij d_ij'
    dual     max 1'u,  0 <= u_r <= (1 - gamma) w_r,  sum_r u_r C_r <= gamma X_S

With X_S (+ ridge) = R R' and S = R'MR it is the eigenvalue program with c_r = (1 - gamma)
w_r, w = gamma, b = 1 over the whitened points.
"""

from .eigenvalue import EigenvalueProgram


class LMNNEigProgram(EigenvalueProgram):
    """See the module docstring.

    Parameters
    ----------
    operator : Operator
        One row per triplet of whitened points, in float64.
    gamma : float, between 0 and 1
    dtype : dtype, default=None
        Precision to solve in.
    weights : array (m,), default=None
        w_r, positive; None means one each.
    """

    def __init__(self, operator, gamma, dtype=None, weights=None):
        loss_weight = 1.0 - gamma if weights is None else (1 - gamma) * weights
        super().__init__(operator, gamma, loss_weight, dtype)
