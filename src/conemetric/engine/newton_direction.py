"""Newton directions of a box-constrained spectral dual, by conjugate gradients.

    H d = g on the free multipliers,    H = sigma A_F W A_F* + curvature        (engine.program.SpectralDual.hessian)

[K]_+ is strongly semismooth, so steps d with ever smaller residuals converge superlinearly (Qi &
Sun 2006; Zhao, Sun & Toh 2010). H is singular if constraints depend on each other; but every step
of conjugate gradients gains, so wherever they stop, d is a direction of ascent. The preconditioner
is the diagonal of H, with the identity for W.
"""

from ..core.arrays import Array, Pair, Values, namespace
from .program import Evaluation, SpectralDual

ACCURACY = 0.1  # residual of a Newton direction, relative to the gradient
MOST = 60  # products with H for one direction


def newton_direction(
    problem: SpectralDual, point: Evaluation, free: Array
) -> tuple[Array | None, int]:
    """H^-1 g where ``free``, else zero (None without curvature); and the products with H."""
    space = problem.operator.space
    hessian, diagonal = problem.hessian(point)
    direction = None
    residual = point.gradient * free
    search = residual / diagonal
    # squared, in the norm of the preconditioner: so ACCURACY is squared too
    first = space.sum(dot, residual, search)
    rest = first
    steps = 0
    while steps < MOST and rest > ACCURACY**2 * first:
        # blocked multipliers stay where they are: their rows and columns of H are left out
        image = hessian(search) * free
        along, length = space.sum(_curvature_along, search, image, diagonal)
        # H is singular where constraints depend on each other: along `search` it may be rounding
        if not along > problem.operator.eps * length:
            break
        steps += 1
        step = search * (rest / along)
        if direction is None:
            direction = step
        else:
            direction = direction + step
        residual = residual - image * (rest / along)
        scaled = residual / diagonal
        rest_before = rest
        rest = space.sum(dot, residual, scaled)
        search = scaled + search * (rest / rest_before)
    return direction, steps


def dot(a: Array, b: Array) -> Array:
    return namespace(a).dot(a, b)  # vecdot and matmul would keep other threads waiting


def _curvature_along(search: Array, image: Array, diagonal: Values) -> Pair:
    return dot(search, image), dot(search, search * diagonal)
