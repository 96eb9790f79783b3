"""Secants: the unit vectors (x_a - x_b) / ||x_a - x_b|| of all pairs of rows of X, or of listed
ones.

`SecantOperator` holds an explicit, bounded list of them (the active set of a column generation).
`AllSecants` and `ListedSecants` are the complete sets. They store only X (and the list); an integer
*key* names one secant, and `scan` visits all of them.

A pair is *near-duplicate*, and has no secant, when ||x_a - x_b||^2 <= `DUPLICATE` * max_i ||x_i -
mean||^2. Scans in float32 skip pairs below the coarser limit `NOISY`, where single-precision
distances carry no information; the scan in float64, which every certificate needs, does not.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...core.arrays import arange, float64, like, namespace, to_index, zeros
from ...core.slices import slices
from ...engine.operators.base import Operator
from .secant_tiles import Tiles

# squared length, relative to the largest squared distance from the mean: 1e-5 of the radius,
# where half of the digits of float64 are left in a difference
DUPLICATE = 1e-10
NOISY = 1e-5  # the same for scans in float32, some hundred times their rounding


class SecantOperator(Operator):
    """A(M)_s = v_s' M v_s for the rows v_s of V."""

    def __init__(self, V: Any):
        self.V = V
        self.reference = zeros(0, V)
        self.n_constraints, self.n_features = V.shape
        # dimension of the symmetric matrices
        self.n_symmetric = self.n_features * (self.n_features + 1) // 2

    def forward(self, M: Any) -> Any:
        return ((self.V @ M) * self.V).sum(1)

    def forward_factor(self, L: Any) -> Any:
        return ((self.V @ L) ** 2).sum(1)

    def adjoint(self, u: Any) -> Any:
        return self.V.T @ (u[:, None] * self.V)

    @property
    def dense_work(self) -> float:
        """Of an adjoint, or of an eigendecomposition if secants are few."""
        tallest = max(self.n_constraints, self.n_features)
        return float(tallest) * self.n_features**2

    def gram(self) -> Any:
        """A A*, the S x S matrix of squared inner products."""
        G = self.V @ self.V.T
        G *= G
        return G

    @cached_property
    def _triangle(self) -> tuple[Any, Any, Any]:
        """Rows, columns and weights that turn a symmetric matrix into a vector of the same norm."""
        rows, columns = np.triu_indices(self.n_features)
        # an entry beside the diagonal counts twice in the norm of the matrix
        weight = like(np.where(rows == columns, 1.0, 2**0.5), self.V)
        return like(rows, self.V, self.xp.int64), like(columns, self.V, self.xp.int64), weight

    def symmetric_gram(self) -> Any:
        """A* A on symmetric matrices as vectors, summed over blocks of secants."""
        rows, columns, weight = self._triangle
        total: Any = 0
        for part in slices(self.n_constraints, self.n_symmetric):
            V = self.V[part]
            products = V[:, rows] * V[:, columns] * weight
            total = total + products.T @ products
        return total

    def vector(self, M: Any) -> Any:
        """A symmetric matrix as a vector of the same norm."""
        rows, columns, weight = self._triangle
        return M[rows, columns] * weight

    def matrix(self, m: Any) -> Any:
        """The symmetric matrix with vector m."""
        rows, columns, weight = self._triangle
        M = zeros((self.n_features, self.n_features), m)
        M[rows, columns] = M[columns, rows] = m / weight
        return M

    def astype(self, dtype: Any) -> "SecantOperator":
        return SecantOperator(like(self.V, self.V, dtype))


@dataclass(frozen=True)
class Scan:
    """What a pass found. Violations are in units of delta."""

    worst: float  # the largest violation; 0 if all bounds hold
    keys: Any  # violated secants, worst first: of every row of every tile, one at either bound
    excess: Any  # their violations
    n_near_duplicates: int  # pairs skipped because they have no secant
    next_tile: int | None = None  # where to resume a pass that stopped early


class Secants(ABC):
    """A complete set of secants of X, each named by an integer key.

    Plain sets require 1 - delta <= v'Pv <= 1 + delta; with classes, secants between similar points
    have only the upper bound, the others only the lower one.
    """

    n_pairs: int

    def __init__(self, X: Any, dtype: Any = None):
        """Programs over them are in the precision ``dtype`` (None: X's); X stays in float64."""
        self.xp = namespace(X)
        self.reference = like(X[:0, 0], X, dtype)
        X = float64(X) - float64(X[:1])  # exact where rows coincide; a mean is rounded
        self.X = X - X.mean(0)
        self.n_points, self.n_features = X.shape
        self.square = float((self.X * self.X).sum(1).max())

    @property
    def empty(self) -> bool:
        """Whether there is no secant, because the points of every pair coincide."""
        return self.n_pairs == 0 or not self.square > 0

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator) -> Any:
        """Keys of ``size`` secants drawn at random (fewer if a draw repeats), or of all."""

    @abstractmethod
    def ends(self, keys: Any) -> tuple[Any, Any]:
        """The two points of each pair."""

    @abstractmethod
    def similar_pairs(self, keys: Any) -> Any:
        """Mask of the pairs of similar points; None for plain sets."""

    @abstractmethod
    def scan(
        self,
        L: Any,
        delta: float,
        dtype: Any = None,
        *,
        points: Any = None,
        first_tile: int = 0,
        enough: tuple[int, float] | None = None,
    ) -> Scan:
        """Visit pairs at P = L L', in the precision ``dtype`` (None: the programs'): those of these
        ``points`` (None: all), in tiles that follow their order, from ``first_tile`` on and around.
        With ``enough`` = (count, excess) it may stop once it has so many violations above that.
        """

    def bounds(self, keys: Any, delta: float) -> tuple[Any, Any]:
        """Lower and upper bound of v'Pv per key, infinite if there is none."""
        xp = self.xp
        similar = self.similar_pairs(keys)
        one = xp.ones_like(keys, dtype=xp.float64)
        lower = one * (1 - delta)
        upper = one * (1 + delta)
        if similar is None:
            return lower, upper
        return xp.where(similar, -xp.inf, lower), xp.where(similar, upper, xp.inf)

    def operator(self, keys: Any, dtype: Any = None) -> SecantOperator:
        """The secants of these keys as an explicit operator, normalised in float64."""
        a, b = self.ends(keys)
        d = self.X[a] - self.X[b]
        V = d / ((d * d).sum(1) ** 0.5)[:, None]
        return SecantOperator(like(V, self.reference, dtype))

    def excess(self, keys: Any, L: Any, delta: float) -> Any:
        """Violation per key in units of delta (negative inside), from differences in float64."""
        values = self.operator(keys, self.xp.float64).forward_factor(float64(L))
        lower, upper = self.bounds(keys, delta)
        return self.xp.maximum(lower - values, values - upper) / delta

    def _have_secant(self, a: Any, b: Any) -> Any:
        """Return which pairs are no near-duplicates."""
        d = self.X[a] - self.X[b]
        return (d * d).sum(1) > DUPLICATE * self.square

    def _scan_result(
        self, keys: Any, excess: Any, n_near_duplicates: int, next_tile: int | None = None
    ) -> Scan:
        """Return a scan that found these secants violated, in any order."""
        order = self.xp.argsort(-excess)
        worst = 0.0
        if len(order):
            worst = float(excess[order[0]])
        return Scan(worst, keys[order], excess[order], int(n_near_duplicates), next_tile)


class AllSecants(Secants):
    """Every pair of rows of X, visited in tiles; points of the same class in ``y`` are similar."""

    def __init__(self, X: Any, y: Any = None, dtype: Any = None):
        super().__init__(X, dtype)
        self.y: Any = None
        if y is not None:
            self.y = like(y, X, self.xp.int32)
        self.n_pairs = self.n_points * (self.n_points - 1) // 2

    def sample(self, size: int, rng: Any) -> Any:
        n = self.n_points
        if self.n_pairs <= size:
            first, second = np.triu_indices(n, 1)
        else:
            first = rng.integers(0, n, size)
            second = rng.integers(0, n - 1, size)
            second = second + (second >= first)  # any point but the first
        # a pair has one key, whichever of its ends was drawn first
        keys = np.unique(np.minimum(first, second) * n + np.maximum(first, second))
        keys = self._with_secant(like(keys, self.X, self.xp.int64))
        if len(keys):
            return keys
        # the point farthest from the mean has some
        far = (self.X * self.X).sum(1).argmax()
        others = arange(n, self.X)
        keys = self.xp.minimum(far, others) * n + self.xp.maximum(far, others)
        return self._with_secant(keys)[:size]

    def _with_secant(self, keys: Any) -> Any:
        return keys[self._have_secant(*self.ends(keys))]

    def ends(self, keys: Any) -> tuple[Any, Any]:
        return keys // self.n_points, keys % self.n_points

    def similar_pairs(self, keys: Any) -> Any:
        if self.y is None:
            return None
        a, b = self.ends(keys)
        return self.y[a] == self.y[b]

    def scan(
        self,
        L: Any,
        delta: float,
        dtype: Any = None,
        *,
        points: Any = None,
        first_tile: int = 0,
        enough: tuple[int, float] | None = None,
    ) -> Scan:
        xp = self.xp
        if points is None:
            points = arange(self.n_points, self.X)
        tiles = self._tiles(points, L, dtype)
        order = [*range(first_tile, len(tiles)), *range(first_tile)]
        worst = []
        n_offenders = 0
        for number in order:
            tile = tiles.worst(number)
            worst.append(tile)
            if enough is not None and len(worst) < len(order):
                n_enough, least_excess = enough
                n_offenders += int((tile.value > delta * (1 + least_excess)).sum())
                if n_offenders >= n_enough:
                    break
        # distances of v'Pv from 1, which may be up to delta
        excess = xp.concat([tile.value for tile in worst]) / delta - 1
        keep = to_index(excess > 0)
        a = points[xp.concat([tile.row for tile in worst])[keep]]
        b = points[xp.concat([tile.column for tile in worst])[keep]]
        keys = xp.minimum(a, b) * self.n_points + xp.maximum(a, b)
        n_near_duplicates = sum(tile.n_near_duplicates for tile in worst)
        next_tile = None
        if len(worst) < len(order):
            next_tile = order[len(worst)]
        return self._scan_result(keys, excess[keep], n_near_duplicates, next_tile)

    def _tiles(self, points: Any, L: Any, dtype: Any) -> Tiles:
        """Return the tiles of all pairs of these points, in their order."""
        if dtype is None:
            dtype = self.reference.dtype
        y = None if self.y is None else self.y[points]
        short = DUPLICATE if dtype == self.xp.float64 else NOISY
        return Tiles(like(self.X[points], self.X, dtype), L, y, short * self.square)


class ListedSecants(Secants):
    """Given pairs (m, 2) with a secant; ``similar`` marks similar ones (None: plain bounds)."""

    def __init__(self, X: Any, pairs: Any, similar: Any = None, dtype: Any = None):
        super().__init__(X, dtype)
        pairs = like(pairs, X, self.xp.int64)
        keep = self._have_secant(pairs[:, 0], pairs[:, 1])
        self.pairs = pairs[keep]
        self.n_pairs = int(keep.sum())
        self.similar: Any = None
        if similar is not None:
            self.similar = like(similar, X, self.xp.bool)[keep]
        self.n_near_duplicates = len(pairs) - self.n_pairs

    def sample(self, size: int, rng: Any) -> Any:
        chosen = np.arange(self.n_pairs)
        if self.n_pairs > size:
            chosen = np.sort(rng.choice(self.n_pairs, size, replace=False))
        return like(chosen, self.X, self.xp.int64)

    def ends(self, keys: Any) -> tuple[Any, Any]:
        return self.pairs[keys, 0], self.pairs[keys, 1]

    def similar_pairs(self, keys: Any) -> Any:
        return None if self.similar is None else self.similar[keys]

    def scan(self, L: Any, delta: float, dtype: Any = None, **which: Any) -> Scan:
        """Visit every pair, always in float64."""
        keys = arange(self.n_pairs, self.X)
        parts = slices(self.n_pairs, self.n_features)
        excess = self.xp.concat([self.excess(keys[part], L, delta) for part in parts])
        keep = to_index(excess > 0)
        return self._scan_result(keys[keep], excess[keep], self.n_near_duplicates)
