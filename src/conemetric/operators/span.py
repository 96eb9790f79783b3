"""Points in as few coordinates as their differences need, and the way back to the features.

Constraints see differences of rows of X, and these lie in the span of the centred rows.
With Q (D x r) an orthonormal basis of it and x - mean = Q z,

    (x - x')' M (x - x') = (z - z')' (Q'MQ) (z - z')      for every M,

and Q'MQ has no larger a trace or Frobenius norm than M. So a program that asks for
differences and is regularised by either has its optimum at Q N Q', with N the optimum
of the same program over the coordinates z. The multipliers are the same, and A*(u) over
X is Q times A*(u) over z times Q': its positive eigenvalues, and hence every bound
proven over z, hold in all D dimensions. Nothing here is D x D unless X has more rows
than features.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ..arrays import float64, is_torch, like, namespace, to_index, zeros

# part of the features above which solving in the span does not pay for finding it: a QR
# factorisation in float64 costs as much as three to six evaluations of the dual
WORTHWHILE = 0.9
# eigenvalues of a Gram matrix above this part of the largest are surely not rounding
SURELY_POSITIVE = 1e-10
BLOCK = 1 << 22  # entries of X converted to float64 at a time


@dataclass(frozen=True)
class Coordinates:
    """Rows of X as points of a space of r <= D dimensions.

    Attributes
    ----------
    points : array (n, r)
        Their differences are those of the rows of X, seen in the new space.
    maps : tuple of matrices
        Their product B (D x r) leads back: a metric with factor L over the points has
        factor B L over the features. Empty where the points are the rows of X.
    """

    points: Any
    maps: tuple = ()

    def lift(self, L):
        """B L, in the precision of L."""
        return lift(self.maps, L)

    def lower(self, F):
        """The L whose `lift` is F, a factor within the reach of the maps, in float64."""
        for matrix in self.maps:
            basis, R = namespace(matrix).linalg.qr(matrix)
            F = namespace(matrix).linalg.solve(R, basis.T @ float64(F))
        return F

    def with_spare(self):
        """One coordinate more, in which no points differ: a direction of the features
        outside the span. The same where the span is everything.
        """
        if not self.maps:
            return self
        xp, r = namespace(self.points), self.points.shape[1]
        basis = self.lift(xp.eye(r, dtype=xp.float64, device=self.points.device))
        outside = like(np.random.default_rng(0).standard_normal((len(basis), 1)), basis)
        for _ in range(2):  # once more for what rounding left of a direction nearly inside
            outside = outside - basis @ (basis.T @ outside)
            outside = outside / xp.linalg.norm(outside)
        points = xp.concat([self.points, zeros((len(self.points), 1), self.points)], 1)
        return Coordinates(points, (xp.concat([basis, outside], 1),))


def lift(maps, L):
    """The product of ``maps`` and L, in the precision of L."""
    lifted = float64(L) if maps else L
    for matrix in reversed(maps):
        lifted = matrix @ lifted
    return like(lifted, L)


def in_span(X, *, at_most=WORTHWHILE):
    """Coordinates of X in an orthonormal basis of the span of its centred rows.

    Parameters
    ----------
    X : array (n, D)
    at_most : float, default=`WORTHWHILE`
        With n > D, leave X as it is unless the rank is at most this part of D.

    Returns
    -------
    Coordinates
        With points in the precision of X. Only directions with singular values at the
        rounding level of float64 are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.operators.span import in_span
    >>> X = np.random.default_rng(0).normal(size=(5, 1000))
    >>> span = in_span(X)
    >>> span.points.shape
    (5, 4)
    >>> z = span.points[0] - span.points[1]
    >>> bool(np.allclose(span.lift(z[:, None])[:, 0], X[0] - X[1]))
    True
    """
    if _has_rank(X, _worth(X, at_most)):
        return Coordinates(X)
    span = centred_in_span(_centred(X), at_most=at_most)
    return Coordinates(like(span.points, X), span.maps) if span.maps else Coordinates(X)


def centred_in_span(Z, *, at_most=WORTHWHILE):
    """`in_span` of centred rows in float64, which may be overwritten."""
    xp, (n, D), most = namespace(Z), Z.shape, _worth(Z, at_most)
    if n <= D:
        basis, R = _qr(Z.T)
        left, singular, right = xp.linalg.svd(R)  # Z = R'Q' = V s (Q U)'
        r = _rank(singular)
        return Coordinates(right[:r].T * singular[:r], (basis, left[:, :r]))
    if _has_rank(Z, most):
        return Coordinates(Z)
    _, singular, right = xp.linalg.svd(_triangle(Z))
    r = _rank(singular)
    if r > most:
        return Coordinates(Z)
    basis = right[:r].T
    return Coordinates(Z @ basis, (basis,))


def _worth(X, at_most):
    """The largest rank for which to leave X."""
    n, D = X.shape
    return n if n <= D else min(D - 1, int(at_most * D))


def _has_rank(X, most):
    """Whether a Gram matrix proves the centred rows of X to have a rank above ``most``."""
    n, D = X.shape
    if n <= D:
        return False
    few = max(1, 2 * n // (3 * D))  # 3/2 D rows, mostly enough to show full rank
    return _least_rank(X[::few]) > most or (few > 1 and _least_rank(X) > most)


def _least_rank(X):
    """How many directions the Gram matrix of the centred rows proves to be there; it
    cannot tell a direction 1e-8 as large as the largest from none.
    """
    xp = namespace(X)
    mean, step = _mean(X), max(1, BLOCK // X.shape[1])
    gram: Any = 0.0
    for start in range(0, len(X), step):
        rows = X[start : start + step] - mean
        gram = gram + rows.T @ rows
    varying = to_index(xp.diagonal(gram) > 0)
    gram = gram[varying][:, varying]
    scale = xp.diagonal(gram) ** 0.5
    gram = gram / scale / scale[:, None]
    floor = SURELY_POSITIVE * len(varying)  # the trace, which no eigenvalue exceeds
    if _is_positive(gram - floor * xp.eye(len(varying), dtype=gram.dtype, device=gram.device)):
        return len(varying)
    return int((xp.linalg.eigvalsh(gram) > floor).sum())


def _is_positive(S):
    if is_torch(S):
        return not bool(namespace(S).linalg.cholesky_ex(S).info)
    return scipy.linalg.lapack.dpotrf(S)[1] == 0


def _mean(X):
    return X.mean(0, dtype=namespace(X).float64)


def _centred(X):
    """X less its mean, a new array in float64."""
    return X - _mean(X)


def _rank(singular):
    """Singular values above rounding, at least one."""
    eps = namespace(singular).finfo(singular.dtype).eps
    return max(1, int((singular > len(singular) * eps * singular[0]).sum()))


def _qr(A):
    """Q and R of a matrix that may be overwritten."""
    if is_torch(A):
        return namespace(A).linalg.qr(A)
    return scipy.linalg.qr(A, mode="economic", overwrite_a=True, check_finite=False)


def _triangle(A):
    """R alone."""
    return namespace(A).linalg.qr(A, mode="r")[1] if is_torch(A) else np.linalg.qr(A, mode="r")
