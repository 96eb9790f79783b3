"""Coordinates in which the scatter of the similar pairs is the identity (Ying & Li 2012)."""

from ...core.arrays import Array, float64, identity, namespace, to_index
from ...core.sparse_rows import SparseRows
from .base import Points
from .difference import from_pairs
from .span import Coordinates, Diagonal, Matrix, centred_in_span

SMALLEST_SPREAD = 1e-290  # of a column that varies: squares below it have few digits


def whiten(
    X: Points, similar_pairs: Array, ridge: float, weights: Array | None = None
) -> Coordinates:
    """X in coordinates where the scatter of the similar pairs is the identity, in float64.

    The scatter is X_S = sum of w d d' over the pairs, plus a ridge. With features divided by the
    square root of the ridge, that ridge is the identity, so at given distances <X_S, M> is smallest
    in the span of the rows (`engine.operators.span`), where the scatter is whitened.
    """
    scale = ridge_diagonal(X, amount(similar_pairs, weights), ridge) ** 0.5
    if isinstance(X, SparseRows):
        divided = X.centred().astype("float64").scaled(1 / scale)
    else:
        divided = X - X.mean(0, dtype=namespace(X).float64)
        divided /= scale
    span = centred_in_span(divided)
    T = whitening(scatter(span.points, similar_pairs, weights))
    if isinstance(span.points, SparseRows):
        points = SparseRows(span.points.matrix, T.matrix)
    else:
        points = span.points @ T.matrix
    return Coordinates(points, (Diagonal(1 / scale), *span.maps, T))


def whitening(scatter: Array) -> Matrix:
    """The map to coordinates in which this scatter plus the identity is the identity."""
    xp = namespace(scatter)
    one = identity(len(scatter), scatter)
    R = xp.linalg.cholesky(scatter + one)
    # T = R^-T, for which T'(scatter + I) T = I; its inverse R' is known
    return Matrix(xp.linalg.solve(R.T, one), R.T)


def scatter(X: Points, pairs: Array, weights: Array | None = None) -> Array:
    """sum of w d d' over the pairs."""
    operator = from_pairs(X, pairs)
    if weights is None:
        w = operator.empty_constraint_vector() + 1
    else:
        w = operator.constraint_vector(weights)
    return operator.adjoint(w)


def amount(pairs: Array, weights: Array | None) -> float:
    """The total weight of the pairs."""
    if weights is None:
        return len(pairs)
    return float(float64(weights).sum())


def ridge_diagonal(X: Points, n_pairs: float, ridge: float) -> Array:
    """``ridge`` times the expected diagonal of the scatter of ``n_pairs`` pairs of random rows."""
    xp = namespace(X)
    if isinstance(X, SparseRows):
        spread = X.variances()
    else:
        Z = X - X.mean(0, dtype=xp.float64)
        spread = xp.einsum("ij,ij->j", Z, Z) / len(Z)
        lost = (spread < SMALLEST_SPREAD) & (X[:1] != X).any(0)
        if bool(lost.any()):
            raise ValueError(
                f"column {int(to_index(lost)[0])} of X varies so little that its squares leave the "
                "range of float64; rescale it (TableEncoder)."
            )
    return ridge_of_spread(spread, n_pairs, ridge)


def ridge_of_spread(spread: Array, n_pairs: float, ridge: float) -> Array:
    """`ridge_diagonal`, given the variances of the features."""
    xp = namespace(spread)
    # two random rows differ by 2 spread, squared, on average; a constant feature needs a
    # ridge too, or the scatter would have no inverse
    return 2 * ridge * n_pairs * xp.where(spread > 0, spread, xp.ones_like(spread))


def similar_scatter(
    X: Points, similar_pairs: Array, ridge: float, weights: Array | None = None
) -> Array:
    """X_S with its ridge, D x D, in float64."""
    diagonal = ridge_diagonal(X, amount(similar_pairs, weights), ridge)
    return scatter(float64(X), similar_pairs, weights) + namespace(X).diag(diagonal)
