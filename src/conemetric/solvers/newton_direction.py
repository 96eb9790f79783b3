"""Newton directions of a box-constrained spectral dual, by conjugate gradients.

    H d = g on the free multipliers,    H = sigma A_F W A_F* + bend        (problems.base.SpectralDual.hessian)

[K]_+ is strongly semismooth, so steps d with ever smaller residuals converge
superlinearly (Qi & Sun 2006; Zhao, Sun & Toh 2010). W acts through one eigenbasis of K: a
product with H is an adjoint, two products in that basis, and a forward. H is singular
where constraints depend on each other; the gains of conjugate gradients rise with every
step, so that wherever they stop, at the accuracy wanted, at their limit or at a direction
without curvature, d is one of ascent. Preconditioned by the diagonal of H,
up to W.
"""

from ..core.arrays import namespace

ACCURACY = 0.1  # of a Newton direction, relative to the gradient
MOST = 60  # products with H for one direction


def newton_direction(problem, point, free):
    """H^-1 g on the multipliers where ``free`` is one, zero where it is zero; None where
    not even the gradient has curvature. And the number of products with H.
    """
    space, hessian = problem.operator.space, problem.hessian(point)
    diagonal = hessian.diagonal
    direction, residual = None, point.gradient * free
    scaled = search = residual / diagonal
    rest = first = space.sum(dot, residual, scaled)
    steps = 0
    while steps < MOST and rest > ACCURACY**2 * first:
        image = hessian(search) * free
        bent, length = space.sum(_bent, search, image, diagonal)
        if not bent > problem.operator.eps * length:
            break
        steps += 1
        step = search * (rest / bent)
        direction = step if direction is None else direction + step
        residual = residual - image * (rest / bent)
        scaled = residual / diagonal
        last, rest = rest, space.sum(dot, residual, scaled)
        search = scaled + search * (rest / last)
    return direction, steps


def dot(a, b):
    return namespace(a).dot(a, b)  # vecdot and matmul keep other threads waiting


def _bent(search, image, diagonal):
    return dot(search, image), dot(search, search * diagonal)
