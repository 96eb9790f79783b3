"""Eigenvalue programs (Ying & Li 2012): a trace, plus a hinge loss on the constraints
of one operator.

    P(S) = w Tr S + sum_r c_r max(0, b_r - A(S)_r),   S psd           (c = inf: A(S) >= b is enforced)
    D(u) = b'u,                                       0 <= u_r <= c_r,  A*(u) <= w I
    any u >= 0, times min(1 / max_r u_r / c_r, w / lambda_max(A*(u))), is dual feasible

For b = 1 and all c_r = c this is the paper's "maximise min_r (xi_r + A(S)_r) over w Tr S + c 1'xi = 1"
(Lemma 2): a point of value delta there, divided by delta, is a point of value 1/delta
here, and the paper's bound max(max u / c, lambda_max(A*(u)) / w) over the simplex is
one over the bound above. The proximal subproblem

    min P(S) + ||S - S_k||_F^2 / (2 sigma)

has a dual in the form of `SpectralDual`, with K(u) = S_k / sigma - w I + A*(u): a box
and a smooth objective.
"""

import math
from functools import cached_property

from ..core import spectral
from ..core.arrays import float64, is_scalar, namespace, zeros
from ..core.sparse_rows import SparseRows
from ..core.vectors import Total, greatest, total
from ..operators import from_pairs
from ..operators.span import Coordinates, Diagonal, Matrix, centred_in_span
from .base import Bounds, Problem, SpectralDual
from .losses import weighted_sum


def whiten(X, similar_pairs, ridge, weights=None):
    """X in coordinates where the scatter of the similar pairs is the identity, in float64.

    The scatter is X_S = sum of d d' over the pairs, times their ``weights``, plus a ridge (`ridge_diagonal`). In
    features divided by the square root of the ridge it is the identity that is added,
    so that <X_S, M> is least, at given distances, in the span of the rows there
    (`operators.span`). The scatter is whitened in that span, and is never D x D when
    there are fewer rows than features.

    Returns
    -------
    Coordinates
    """
    scale = ridge_diagonal(X, amount(similar_pairs, weights), ridge) ** 0.5
    span = centred_in_span(_divided(X, scale))
    T = whitening(scatter(span.points, similar_pairs, weights))
    points = span.points
    points = points.mapped(T.matrix) if isinstance(points, SparseRows) else points @ T.matrix
    return Coordinates(points, (Diagonal(1 / scale), *span.maps, T))


def whitening(scatter):
    """The map in whose coordinates this scatter plus the identity is the identity."""
    xp = namespace(scatter)
    identity = xp.eye(len(scatter), dtype=scatter.dtype, device=scatter.device)
    R = xp.linalg.cholesky(scatter + identity)
    return Matrix(xp.linalg.solve(R.T, identity), R.T)


def scatter(X, pairs, weights=None):
    """sum of w d d' over the pairs."""
    operator = from_pairs(X, pairs)
    ones = operator.empty_constraint_vector() + 1
    return operator.adjoint(ones if weights is None else operator.constraint_vector(weights))


def amount(pairs, weights):
    """The number of pairs, each counted by its weight."""
    return len(pairs) if weights is None else float(float64(weights).sum())


def _divided(X, scale):
    """The centred rows, feature by feature in units of ``scale``, in float64."""
    if isinstance(X, SparseRows):
        return float64(X.centred()).scaled(1 / scale)
    Z = X - X.mean(0, dtype=namespace(X).float64)
    Z /= scale
    return Z


def ridge_diagonal(X, n_pairs, ridge):
    """``ridge`` times the diagonal that the scatter of ``n_pairs`` pairs of random rows
    would have: relative to the spectrum, whatever the units of any feature.
    """
    xp = namespace(X)
    if isinstance(X, SparseRows):
        spread = X.variances()
    else:
        Z = X - X.mean(0, dtype=xp.float64)
        spread = xp.einsum("ij,ij->j", Z, Z) / len(Z)
    return ridge_of_spread(spread, n_pairs, ridge)


def ridge_of_spread(spread, n_pairs, ridge):
    """`ridge_diagonal`, from the mean square of the features about their mean."""
    xp = namespace(spread)
    return 2 * ridge * n_pairs * xp.where(spread > 0, spread, xp.ones_like(spread))


def similar_scatter(X, similar_pairs, ridge, weights=None):
    """X_S with its ridge, D x D, in float64."""
    diagonal = ridge_diagonal(X, amount(similar_pairs, weights), ridge)
    return scatter(float64(X), similar_pairs, weights) + namespace(X).diag(diagonal)


class EigenvalueProgram(Problem):
    """See the module docstring.

    Parameters
    ----------
    operator : Operator
        In float64, where certificates are evaluated.
    trace_weight : float
        w.
    loss_weight : float or array (m,)
        c, one for all or one each; infinity for all enforces the constraints.
    dtype : dtype, default=None
        Precision to solve in; None keeps float64.
    target : array (m,), default=None
        b; None means one each.
    """

    def __init__(self, operator, trace_weight, loss_weight, dtype=None, target=None):
        self.exact_operator = operator
        self.operator = operator if dtype is None else operator.astype(dtype)
        self.trace_weight = float(trace_weight)
        one = is_scalar(loss_weight)
        self.loss_weight = loss_weight if one else self.operator.constraint_vector(loss_weight)
        self.target = 1.0 if target is None else self.operator.constraint_vector(target)

    @property
    def hard(self):
        """Whether the constraints are enforced rather than penalised."""
        return is_scalar(self.loss_weight) and math.isinf(self.loss_weight)

    @property
    def price(self):
        """c where it is finite: the size of a multiplier, if only up to scale."""
        return 1.0 if self.hard else self.loss_weight

    # ---- the program

    def terms(self, margins) -> Total:
        """What `objective` needs of A(L L') = ``margins``, a reduction to be made."""
        if self.hard:
            return greatest(_negative_least, margins)
        return total(_missing, margins, self.target, self.loss_weight)

    def objective(self, L, terms):
        """P(L L'), given the `terms` of its margins; where constraints are enforced, of the
        multiple of L L' that just meets them.
        """
        trace = self.trace_weight * float((float64(L) ** 2).sum())
        if self.hard:
            return trace / -terms if terms < 0 else math.inf
        return trace + terms

    def bounds(self, L, u):
        """Bounds on the program from a factor L of S and multipliers u: P(L L'), and D of
        u scaled to feasibility (of equal multipliers where u is zero).
        """
        operator = self.operator
        wanted = self.terms(operator.forward_factor(L))
        u = operator.space.map(_nonnegative, u)
        adjoint, (terms, *of_u) = operator.adjoint_and(u, wanted, *self._of_multipliers(u))
        if not of_u[0] > 0:
            u = operator.empty_constraint_vector() + 1
            adjoint, of_u = operator.adjoint_and(u, *self._of_multipliers(u))
        most, gain = of_u
        return Bounds(self.objective(L, terms), self._scale(adjoint, most) * gain)

    def _of_multipliers(self, u):
        return greatest(most_of_price, u, self.price), total(_gain, u, self.target)

    def _scale(self, adjoint, most):
        """What makes multipliers feasible whose A*(u) is ``adjoint`` and ``most`` the
        largest u_r / c_r.
        """
        largest = spectral.largest_eigenvalue(adjoint)
        return min(
            math.inf if self.hard else 1 / most,
            self.trace_weight / largest if largest > 0 else math.inf,
        )

    @cached_property
    def exact(self):
        program = super().exact
        program.operator = self.exact_operator  # not the one rounded to the precision solved in
        return program

    def certify(self, primal_point, dual_point):
        return self.exact.bounds(float64(primal_point), float64(dual_point))

    # ---- for the proximal-point method

    def start(self):
        """Feasible multipliers; the zero matrix, as its factor; and a first sigma in
        the units of the program.
        """
        operator, unit = self.operator, self.unit
        adjoint, (most, sum_) = operator.adjoint_and(
            unit, greatest(most_of_price, unit, self.price), total(_gain, unit, 1.0)
        )
        scale = self._scale(adjoint, most)
        center = zeros((operator.n_features, 0), operator.reference)
        return scale * unit, center, scale * sum_ / self.trace_weight**2

    @cached_property
    def unit(self):
        """Natural size of each multiplier, up to scale."""
        ones = self.operator.empty_constraint_vector() + 1
        return ones if is_scalar(self.loss_weight) else ones * self.loss_weight

    def proximal(self, center, sigma):
        """The dual of min P(S) + ||S - S_k||_F^2 / (2 sigma), S_k = L_k L_k' with L_k =
        ``center``.
        """
        return ProximalDual(self, center, sigma)

    def offset(self, center, sigma):
        """S_k / sigma - w I."""
        identity = self.operator.xp.eye(
            self.operator.n_features, dtype=center.dtype, device=center.device
        )
        return center @ center.T / sigma - self.trace_weight * identity

    # ---- for the Frank-Wolfe method

    def game_bounds(self, value, bound):
        """Bounds from the max-min game: a point of value ``value``, and an upper bound
        on the game.
        """
        return (1 / value if value > 0 else math.inf), 1 / bound


class ProximalDual(SpectralDual):
    """Dual of one proximal step of an `EigenvalueProgram`, which certifies it; its
    primal objective is that of the step.
    """

    def __init__(self, program, center, sigma):
        self.program, self.center, self.sigma = program, center, sigma
        self.operator, self.upper, self.linear = (
            program.operator,
            program.loss_weight,
            program.target,
        )
        self.lower = 0.0 if is_scalar(self.upper) else 0.0 * self.upper
        self.unit, self.offset = program.unit, program.offset(center, sigma)
        self.constant = float((float64(center.T @ center) ** 2).sum()) / (2 * sigma)

    def primal_terms(self, margins):
        return self.program.terms(margins)

    def primal_value(self, terms, squared_norm, factor):
        scale = 1.0
        if self.program.hard:
            scale = -1 / terms if terms < 0 else math.inf
        overlap = float((float64(self.center.T @ factor) ** 2).sum())
        distance = self.constant + (scale**2 * squared_norm - 2 * scale * overlap) / (
            2 * self.sigma
        )
        return self.program.objective(factor, terms) + distance, 0.0


# ---- what is mapped and summed over the blocks of multipliers


def _nonnegative(u):
    return u.clip(0)


def most_of_price(u, price):
    """max_r u_r / c_r."""
    return u.max() / price if is_scalar(price) else (u / price).max()


def _gain(u, target):
    return (target * u).sum(dtype=namespace(u).float64)


def _negative_least(margins):
    return -margins.min()


def _missing(margins, target, loss_weight):
    return weighted_sum((target - margins).clip(0), loss_weight)
