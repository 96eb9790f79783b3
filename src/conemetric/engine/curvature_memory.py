"""The box of a dual, and the memory of a quasi-Newton method over its free multipliers.

The direction H g of L-BFGS is found from the Gram matrix of the stored pairs (s, y) and the gradient, over
the multipliers that no bound blocks (`engine.dual_quasi_newton`). Multipliers are measured in units in which
their curvatures are similar: s in those of u, y and g in those of the dual over u.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from ..core.arrays import Array, Arrays, Pair, Values, is_torch, like, namespace
from ..core.vectors import Reduction, VectorSpace, magnitude, total
from .program import Evaluation, SpectralDual

# Least cosine between the two vectors of a curvature pair that is used.
LEAST_COSINE = 1e-2
# Powers of the constraints' sizes in the units of multipliers, for similar curvatures: with a linear gain,
# and with a curved one, whose own curvature counts too.
EVEN = -0.7
EVEN_SMOOTH = -0.3
# Multipliers whose curvature pairs are read at a time: few calls, little memory.
CHUNK = 1 << 16


@dataclass(frozen=True)
class Box:
    """The box of a dual, and the units of its multipliers, in which float32 never overflows."""

    space: VectorSpace
    lower: Values
    upper: Values
    unit: Values
    relative: Values  # unit over the largest of all units

    @classmethod
    def of(cls, problem: SpectralDual) -> Self:
        """Return the box of a program, with units by the sizes of its constraints if they are known."""
        space = problem.operator.space
        unit = problem.unit
        sizes = problem.sizes
        if not isinstance(sizes, float):
            power = EVEN_SMOOTH if problem.curved else EVEN
            # relative to the largest, whose powers stay in the range of float32 in any units of X
            unit = unit * (sizes * (1 / space.max(magnitude, sizes))) ** power
        relative = unit * (1 / space.max(magnitude, unit))
        return cls(space, problem.lower, problem.upper, unit, relative)

    def restricted(self, index: Array | None, reference: Array) -> "Box":
        """Return the box of the multipliers ``index`` (None: all), in the precision of ``reference``."""
        return Box(
            self.space,
            lower=_part_of_values(self.lower, index, reference),
            upper=_part_of_values(self.upper, index, reference),
            unit=_part_of_values(self.unit, index, reference),
            relative=_part_of_values(self.relative, index, reference),
        )

    def at(self, point: Evaluation) -> tuple[Values, ...]:
        """Return what the functions mapped below take: u, the gradient, bounds, unit, relative unit."""
        return point.u, point.gradient, self.lower, self.upper, self.unit, self.relative


@dataclass(frozen=True)
class CurvatureMemory:
    """The last (s, y) pairs of a quasi-Newton method, and the direction H g they imply."""

    box: Box
    size: int
    pairs: Arrays | None = None  # vector of tuples (s_1, y_1, ..., s_k, y_k)
    length: int = 0
    products: np.ndarray | None = None  # Gram matrix at the point of the next direction, if known

    def extended(self, old: Evaluation, new: Evaluation) -> "CurvatureMemory":
        """Return the memory with the step from ``old`` to ``new``, without the oldest one if full."""
        length = min(self.length + 1, self.size)
        earlier = self.pairs
        if earlier is None:
            earlier = ()
        pairs = self.box.space.map(
            _extended,
            earlier,
            old.u,
            new.u,
            old.gradient,
            new.gradient,
            self.box.unit,
            self.box.relative,
            length=length,
        )
        return CurvatureMemory(self.box, self.size, pairs, length)

    def restricted(self, index: Array | None, reference: Array) -> "CurvatureMemory":
        """Return that of the multipliers ``index`` (None: all), in the precision of ``reference``."""
        pairs = self.pairs
        if pairs is not None:
            pairs = tuple(_part(vector, index, reference) for vector in pairs)
        # without `products`, which are sums over all multipliers
        return CurvatureMemory(self.box.restricted(index, reference), self.size, pairs, self.length)

    def lifted(self, index: Array | None, box: Box, u: Array) -> "CurvatureMemory":
        """Return that of all multipliers u in ``box``, where those not in ``index`` have not moved."""
        pairs = self.pairs
        if pairs is not None:
            pairs = tuple(_spread(like(vector, u), index, u) for vector in pairs)
        return CurvatureMemory(box, self.size, pairs, self.length)

    def gram(self, point: Evaluation) -> Reduction:
        """Request the Gram matrix of all pairs and the gradient."""
        return total(_gram, self.pairs, *self.box.at(point))

    def direction(self, point: Evaluation) -> Array | None:
        """Return H g on the free multipliers, zero elsewhere; None without a pair of positive curvature."""
        if not self.length:
            return None
        space = self.box.space
        products = self.products
        if products is None:
            (products,) = space.totals(self.gram(point))
        coefficients = two_loop(products, self.length)
        if coefficients is None:
            return None
        return space.map(_direction, self.pairs, *self.box.at(point), coefficients=coefficients)


def two_loop(gram: np.ndarray, k: int) -> np.ndarray | None:
    """Return the L-BFGS direction's coefficients over (s_1 .. s_k, y_1 .. y_k, g), by their Gram matrix.

    Nearly orthogonal pairs (s, y) are left out: restricted to the free multipliers, a pair may hide
    the curvature of s, and the direction would be far too long. None if no pair is left, or the
    direction is not one of ascent.
    """
    S = np.arange(k)
    Y = k + S
    curvature = gram[S, Y]
    good = np.flatnonzero(curvature > LEAST_COSINE * np.sqrt(gram[S, S] * gram[Y, Y]))
    if len(good) == 0:
        return None
    q = np.zeros(2 * k + 1)
    q[-1] = 1.0
    # q are coefficients of a vector over the rows of `gram`: gram[i] @ q is the product with row i
    alpha = np.zeros(k)
    for i in reversed(good):
        alpha[i] = gram[i] @ q / curvature[i]
        q[k + i] -= alpha[i]
    newest = good[-1]
    # s'y / y'y of the newest pair: the first guess of H (Nocedal & Wright, algorithm 7.4)
    q *= curvature[newest] / gram[k + newest, k + newest]
    for i in good:
        q[i] += alpha[i] - gram[k + i] @ q / curvature[i]
    ascends = gram[-1] @ q > 0
    return q if ascends else None


# ---- parts of vectors on one machine


def placed(values: Array, index: Array | None, parts: Array) -> Array:
    """Return ``values`` with ``parts`` at the positions ``index``, overwritten."""
    values[index] = parts
    return values


def _spread(vector: Array, index: Array | None, u: Array) -> Array:
    """Return the vector of all multipliers that is zero but for ``vector`` at ``index`` (None: all)."""
    if index is None:
        return vector
    return placed(u * 0, index, vector)


def _part(vector: Array, index: Array | None, reference: Array) -> Array:
    """Return the entries ``index`` (None: all) of a vector, in the precision of ``reference``."""
    if index is not None:
        vector = vector[index]
    return like(vector, reference)


def _part_of_values(values: Values, index: Array | None, reference: Array) -> Values:
    """Return the entries ``index`` of a vector; one number for all of them stays."""
    if isinstance(values, float):
        return values
    return _part(values, index, reference)


# ---- functions mapped and summed over blocks of multipliers, which take what `Box.at` returns


def unbound(u: Array, g: Array, lower: Values, upper: Values, *_: Values) -> Array:
    """Return where no bound blocks the gradient."""
    return ~(((u <= lower) & (g <= 0)) | ((u >= upper) & (g >= 0)))


def steepest(
    u: Array, g: Array, lower: Values, upper: Values, unit: Values, relative: Values
) -> Array:
    """Return the gradient of the free multipliers, in the units of u, and zero elsewhere."""
    free = unbound(u, g, lower, upper)
    # the gradient over u / unit is unit g, and a step along it moves u by unit times that
    return namespace(u).where(free, g, 0.0) * relative**2


def _extended(  # noqa: PLR0913
    pairs: Arrays,
    u: Array,
    new_u: Array,
    g: Array,
    new_g: Array,
    unit: Values,
    relative: Values,
    *,
    length: int,
) -> Arrays:
    """Return the pairs with s = the change of u, y = minus that of the gradient, in their units."""
    s = (new_u - u) / unit
    # minus the change, since D is concave: so s'y is not negative
    y = (g - new_g) * relative
    return (*pairs, s, y)[-2 * length :]


def _gram(
    pairs: Arrays, u: Array, g: Array, lower: Values, upper: Values, unit: Values, relative: Values
) -> Array:
    """Return the products of s_1 .. s_k, y_1 .. y_k and the scaled gradient, over the free entries."""
    rows = (*pairs[0::2], *pairs[1::2], g * relative)
    free = unbound(u, g, lower, upper)
    if is_torch(g):
        stacked = namespace(g).stack(rows) * free
        return stacked @ stacked.T
    gram = np.zeros((len(rows), len(rows)))
    for _, chunk in _chunks(rows, free):
        gram += np.dot(chunk, chunk.T)  # matmul would keep other threads waiting
    return gram


def _direction(  # noqa: PLR0913
    pairs: Arrays,
    u: Array,
    g: Array,
    lower: Values,
    upper: Values,
    unit: Values,
    relative: Values,
    *,
    coefficients: Array,
) -> Array:
    """Return the combination of the rows of `_gram`, on the free entries, in units of u."""
    rows = (*pairs[0::2], *pairs[1::2], g * relative)
    free = unbound(u, g, lower, upper)
    coefficients = like(coefficients, g)
    if is_torch(g):
        return (coefficients @ namespace(g).stack(rows)) * free * unit
    result = np.zeros_like(g)
    for index, chunk in _chunks(rows, free):
        result[index] = coefficients @ chunk
    result *= unit
    return result


def _chunks(rows: Arrays, free: Array) -> Iterator[Pair]:
    """Yield the free columns of ``rows``, stacked `CHUNK` at a time, with their places."""
    if free.all():
        # slices are views, where numbers of columns would copy
        places: list[slice | Array] = [slice(k, k + CHUNK) for k in range(0, len(free), CHUNK)]
    else:
        columns = np.flatnonzero(free)
        places = [columns[k : k + CHUNK] for k in range(0, len(columns), CHUNK)]
    for index in places:
        yield index, np.stack([row[index] for row in rows])
