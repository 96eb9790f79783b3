"""The relative-comparison program of Schultz & Joachims (2004), as in FastQP (Nguyen, Morell & De
Baets 2015, 2.3 and 3.8).

    P(w)      = 1/2 w'Lw + sum_i c_i max(0, 1 - z_i'w),      w >= 0
    D(lam, t) = 1'lam - 1/2 (Z'lam + t)' L^-1 (Z'lam + t),   0 <= lam <= c, t >= 0
    w(lam, t) = L^-1 (Z'lam + t)

with L = (A'A) o (A'A), z_i = (A'x_i - A'x_k)^2 - (A'x_i - A'x_j)^2 for triplet (i, j, k), the
metric M = A diag(w) A', and c_i = C times the weight of the triplet.

L is never inverted and may be singular: y = L^-1 (Z'lam + t) takes the place of t, and becomes feasible
by adding max(0, Z'lam - Ly) / diag(L) to it (docs/mathematics). At the solution y = w.
"""

from functools import cached_property
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.compiled import jit
from ...core.slices import slices
from ...core.threads import threaded
from ...engine.certificate import Bounds
from ...engine.operators.base import DifferenceOperator
from ...engine.program import Point, Problem

ENTRIES = 1 << 21  # of Z processed at a time


class ComparisonProgram(Problem):
    """See the module docstring; ``operator`` is over the mapped points A'x, in NumPy float64,
    ``gram`` is A'A (None: the identity), and ``weights`` are those of the triplets (None: one
    each). A Z of more than ``memory`` bytes is not stored but computed in blocks.
    """

    def __init__(
        self,
        operator: DifferenceOperator,
        C: float,
        gram: Array | None = None,
        memory: int = 1 << 30,
        weights: Array | None = None,
    ):
        self.operator = operator
        self.C = float(C)
        m = operator.n_constraints
        p = operator.n_features
        if weights is None:
            weights = np.ones(m)
        self.penalties = self.C * weights  # c
        self.diagonal = np.ones(p)
        self.is_diagonal = True
        if gram is not None:
            self.L = np.ascontiguousarray(gram, dtype=np.float64) ** 2
            self.diagonal = np.diag(self.L).copy()
            self.is_diagonal = np.count_nonzero(self.L) == np.count_nonzero(self.diagonal)
        # a zero on the diagonal is a zero column of A: its weight has no effect, and stays zero
        has_effect = self.diagonal > 0
        self.inverse_diagonal = np.divide(1.0, self.diagonal, out=np.zeros(p), where=has_effect)
        self.slices = slices(m, p, ENTRIES)
        # sweeps and Newton steps read Z again and again, which is computed from m p differences
        stored = m * p * self.diagonal.itemsize <= memory
        self._Z = np.empty((m, p)) if stored else None
        self._buffer = np.empty((0 if stored else self.slices[0].stop, p))
        if stored:
            self._fill(slice(0, m), self._Z)

    @property
    def dense_work(self) -> float:
        """Of Z_F'Z_F, if F are all triplets."""
        return float(self.operator.n_constraints) * self.operator.n_features**2

    @cached_property
    def L(self) -> np.ndarray:
        """The matrix L; the identity is formed on first use."""
        return np.diag(self.diagonal)

    def weigh(self, w: np.ndarray) -> np.ndarray:
        """Lw."""
        if self.is_diagonal:
            return self.diagonal * w
        return self.L @ w

    def _fill(self, rows: slice, out: Array) -> None:
        """Compute these rows of Z into ``out``."""
        n = rows.stop - rows.start
        A = self.operator
        pairs = A.X, A.a, A.b, A.row_start, A.pair, A.weight
        threaded(comparison_rows, n, 8 * n * out.shape[1], rows.start, pairs, out)

    def block(self, rows: slice) -> np.ndarray:
        """The rows of Z in one of ``slices``; if not stored, valid until the next call."""
        if self._Z is not None:
            return self._Z[rows]
        out = self._buffer[: rows.stop - rows.start]
        self._fill(rows, out)
        return out

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Zw, one value per triplet."""
        out = np.empty(self.operator.n_constraints)
        for rows in self.slices:
            np.matmul(self.block(rows), w, out=out[rows])
        return out

    def combine(self, lam: np.ndarray) -> np.ndarray:
        """Z'lam, one value per weight; blocks whose multipliers are all zero are not computed."""
        out = np.zeros(self.operator.n_features)
        for rows in self.slices:
            part = lam[rows]
            if self._Z is not None or part.any():
                out += part @ self.block(rows)
        return out

    def gram(self, chosen: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Z_F'Z_F for the rows F that a mask marks, and these columns."""
        out = np.zeros((len(columns), len(columns)))
        for rows in self.slices:
            used = np.flatnonzero(chosen[rows])
            if len(used) > 0:
                # half the time of indexing, and less work than the products with all columns
                block = self.block(rows).take(used, 0).take(columns, 1)
                out += block.T @ block
        return out

    def cover(self, y: np.ndarray, combined: np.ndarray) -> np.ndarray:
        """y raised, in each coordinate as little as possible, until Ly >= Z'lam = ``combined``."""
        # no entry of L is negative, so raising one coordinate lowers no entry of Ly
        return y + np.maximum(combined - self.weigh(y), 0.0) * self.inverse_diagonal

    def primal_value(self, w: np.ndarray, loss: float) -> float:
        """P(w), given the sum of the hinge losses, each times its penalty."""
        return 0.5 * float(w @ self.weigh(w)) + float(loss)

    def loss(self, margins: np.ndarray) -> float:
        """sum_i c_i max(0, 1 - z_i'w), given the ``margins`` Zw."""
        return float(self.penalties @ np.maximum(1 - margins, 0.0))

    def dual_value(self, total: float, y: np.ndarray) -> float:
        """D(lam, y), given the sum of lam and a feasible y."""
        return float(total) - 0.5 * float(y @ self.weigh(y))

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        w = np.maximum(primal_point, 0.0)
        primal = self.primal_value(w, self.loss(self.margins(w)))
        return Bounds(primal, self.lower_bound(dual_point))

    def lower_bound(self, dual_point: Point) -> float:
        """D at a dual point made feasible."""
        given, y = dual_point
        lam = np.clip(given, 0.0, self.penalties)
        return self.dual_value(lam.sum(), self.cover(y, self.combine(lam)))


class MeasuredComparisonProgram(ComparisonProgram):
    """The same program, certified at a metric L L' over the features it is stored for, also if
    rounding or a cut has moved it away from every A diag(w) A'. ``over`` is the operator over those
    features, in NumPy float64, and ``features_gram`` holds the inner products of their directions
    (None: orthonormal).
    """

    def __init__(self, over: DifferenceOperator, features_gram: Array | None, *args: Any):
        super().__init__(*args)
        self.over = over
        self.features_gram = features_gram

    def certify(self, primal_point: Array, dual_point: Point) -> Bounds:
        L = np.asarray(primal_point, dtype=np.float64)
        weighed = L
        if self.features_gram is not None:
            weighed = self.features_gram @ L
        inner = L.T @ weighed  # its squares have the same sum as those of the metric
        primal = 0.5 * float((inner**2).sum()) + self.loss(self.over.forward_factor(L))
        return Bounds(primal, self.lower_bound(dual_point))


@jit
def comparison_rows(
    start: int, stop: int, first: int, pairs: tuple[Array, ...], out: Array
) -> None:
    """out[r, c] = sum over pairs (i, j) of row first + r of weight (Y[i, c] - Y[j, c])^2."""
    Y, a, b, row_start, pair, weight = pairs
    n_columns = Y.shape[1]
    for r in range(start, stop):
        out[r] = 0
        for k in range(row_start[first + r], row_start[first + r + 1]):
            i = a[pair[k]]
            j = b[pair[k]]
            sign = weight[k]
            for c in range(n_columns):
                t = Y[i, c] - Y[j, c]
                out[r, c] += sign * t * t
