"""Linear systems of a positive semidefinite matrix, by its Cholesky factor."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .arrays import Array, is_torch, namespace

# Rows from which SciPy, whose threads delay those of NumPy, factors faster.
IN_PLACE_FROM = 2000
# The first ridge that makes a matrix with unit diagonal definite, in units of eps, and the factor by
# which it grows until it does.
FIRST_RIDGE = 4.0
RIDGE_GROWTH = 10.0


def cholesky_solver(H: Array) -> Callable[[Array], Array]:
    """Return the function b -> H^-1 b for a positive semidefinite H, which is overwritten.

    H is scaled to a unit diagonal, and gets the least of a series of ridges that makes it definite.
    """
    xp = namespace(H)
    # so that a ridge relative to eps suits all rows, whatever their units
    scale = xp.linalg.diagonal(H) ** -0.5
    H *= scale
    H *= scale[:, None]
    triangle = _cholesky_with_ridge(H)

    def solve(b: Array) -> Array:
        scaled = scale * b
        if is_torch(scaled):
            return scale * xp.cholesky_solve(scaled[:, None], triangle.matrix, upper=True)[:, 0]
        return scale * cho_solve(triangle, scaled, overwrite_b=True, check_finite=False)

    return solve


class _Triangle(NamedTuple):
    """A Cholesky factor, as SciPy expects it: a matrix, and which of its halves holds the factor."""

    matrix: Array
    lower: bool


def _cholesky_with_ridge(H: Array) -> _Triangle:
    """Return the factor of H, whose diagonal becomes 1 and a ridge; H is overwritten."""
    xp = namespace(H)
    in_place = not is_torch(H) and len(H) >= IN_PLACE_FROM
    diagonal = range(len(H))
    ridge = FIRST_RIDGE * float(xp.finfo(H.dtype).eps)
    while True:
        H[diagonal, diagonal] = 1 + ridge
        # the transpose has its entries in the order of LAPACK, which need not copy it
        try:
            if not in_place:
                return _Triangle(xp.linalg.cholesky(H.T).T, lower=False)
            return _Triangle(*cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False))
        except xp.linalg.LinAlgError:
            if ridge >= 1:
                raise
        ridge *= RIDGE_GROWTH
        if in_place:  # the attempt has overwritten the other half
            H = np.tril(H, -1)
            H += H.T
