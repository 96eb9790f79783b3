"""The inverse of a kernel system, nearly: what rows share with all others, and what with the nearest.

    K + D ~ F F' + S,     F = K(x, z) R^-1,     R'R = K(z, z)

F F' is what m of the rows, the landmarks z, see of K, as in the method of Nystroem: its few large
eigenvalues. What it leaves, K - F F', falls fast with the distance. So S^-1 = U U' may treat a row as
independent of all but k of the rows before it, those with the largest kernel values, as the method of
Vecchia does. Column i of U is zero but for row i and those k, where

    (K - F F' + D) u = e_i,     scaled by the root of u_i

which is the triangular factor of the inverse, were the others not needed. Together (Woodbury):

    (F F' + S)^-1 = U (I - G (I + G'G)^-1 G') U',     G = U'F

On letter (12,000 rows) landmarks alone take twice as many steps of conjugate gradients, nearest rows alone
two to four times; on 20 simulated columns landmarks do all of it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.sparse import csr_array

from ..core.blas import side_by_side
from ..core.slices import slices
from .distance_kernels import KERNELS, KernelSetting

N_LANDMARKS = 500
N_NEAREST = 20
# Kernel values are rounded to single precision. So much is added to the diagonal of what F F' leaves, and
# times m to that of K(z, z).
ROUNDING = 1e-6
BLOCK = 128  # rows whose kernel values with all rows before them are held, for each thread
ROWS_OF_G = 2048  # used in double precision at a time
HELD = 1 << 21  # numbers of small systems held at a time by each thread, 8 MB

Rows = slice | np.ndarray


@dataclass(frozen=True)
class KernelPoints:
    """Rows whose kernel values are needed: ``points`` in single precision."""

    setting: KernelSetting
    points: np.ndarray  # (n, d), float32
    scale: float

    def values(self, rows: Rows, columns: Rows) -> np.ndarray:
        """Kernel values between these rows and those."""
        distances = KERNELS[self.setting.kernel].distances(self.points[rows], self.points[columns])
        return self.setting.values(distances, self.scale)

    def values_within(self, groups: np.ndarray) -> np.ndarray:
        """Kernel values among the rows of each group (g, k), whose numbers these are: (g, k, k)."""
        distances = KERNELS[self.setting.kernel].within(self.points[groups])
        return self.setting.values(distances, self.scale)


class Preconditioner(NamedTuple):
    """(F F' + U^-T U^-1)^-1. G is held in single precision and used in double: what is left of a vector
    without its large components would otherwise be rounding.
    """

    U_transposed: csr_array
    G: np.ndarray  # (n, m)
    factor: tuple[np.ndarray, bool]  # of I + G'G

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        blocks = slices(len(self.G), 1, ROWS_OF_G)
        whitened = self.U_transposed @ vectors

        def moments_of(rows: slice) -> np.ndarray:
            return self.G[rows].T.astype(float) @ whitened[rows]

        moments = np.zeros((self.G.shape[1], vectors.shape[1]))
        for part in side_by_side(moments_of, blocks):
            moments += part
        inner = cho_solve(self.factor, moments)

        def seen_by_landmarks(rows: slice) -> np.ndarray:
            return self.G[rows].astype(float) @ inner

        seen = np.concatenate(list(side_by_side(seen_by_landmarks, blocks)))
        return self.U_transposed.T @ (whitened - seen)


class _Columns(NamedTuple):
    """Columns of U for some rows, and these rows of G."""

    rows: np.ndarray  # (b,): numbers of the rows
    support: (
        np.ndarray
    )  # (b, k + 1): numbers of the rows before each that it depends on, and its own
    entries: np.ndarray  # (b, k + 1)
    G: np.ndarray  # (b, m)


def preconditioner(points: KernelPoints, ridges: np.ndarray, order: np.ndarray) -> Preconditioner:
    """The preconditioner of K + diag(ridges). ``order`` numbers the rows at random: the leading ones
    are landmarks.
    """
    n = len(order)
    m = min(N_LANDMARKS, n)
    F = _seen_by_landmarks(points, np.sort(order[:m]), n)

    def columns_of(block: slice) -> list[_Columns]:
        rows = order[block]
        # landmarks see themselves: they leave nothing for the rows after them
        support = _with_nearest(points, rows, order[m : block.start])
        size = support.shape[1]
        parts = slices(len(rows), size * (m + size), HELD)
        return [_columns(points, ridges, F, rows[part], support[part]) for part in parts]

    # G takes the place of F: from the last block to the first, since none needs rows after its own
    G = F
    gram = np.eye(m)
    row_numbers, column_numbers, entries = [], [], []
    for parts in side_by_side(columns_of, reversed(slices(n, 1, BLOCK))):
        for part in parts:
            G[part.rows] = part.G
            in_double = part.G.astype(float)
            gram += in_double.T @ in_double
            row_numbers.append(np.repeat(part.rows, part.support.shape[1]))
            column_numbers.append(part.support.ravel())
            entries.append(part.entries.ravel())
    at = np.concatenate(row_numbers), np.concatenate(column_numbers)
    U_transposed = csr_array((np.concatenate(entries), at), (n, n))
    return Preconditioner(U_transposed, G, cho_factor(gram))


def _seen_by_landmarks(points: KernelPoints, landmarks: np.ndarray, n: int) -> np.ndarray:
    """F, in single precision."""
    m = len(landmarks)
    K = points.values(landmarks, landmarks).astype(np.float64)
    K[np.diag_indices(m)] = 1 + ROUNDING * m  # k(z, z) = 1 at any width
    R = cholesky(K)
    F = np.empty((n, m), np.float32)

    def fill(rows: slice) -> None:
        across = points.values(landmarks, rows).astype(np.float64)
        F[rows] = solve_triangular(R, across, trans=1, check_finite=False).T

    for _ in side_by_side(fill, slices(n, 1, ROWS_OF_G)):
        pass
    return F


def _with_nearest(points: KernelPoints, rows: np.ndarray, earlier: np.ndarray) -> np.ndarray:
    """For each row the numbers of its nearest ``earlier`` rows, by kernel values, and its own."""
    k = min(N_NEAREST, len(earlier))
    if k == 0:
        return rows[:, None]
    K = points.values(rows, earlier)
    places = np.argpartition(K, -k, axis=1)[:, -k:]
    return np.column_stack([earlier[places], rows])


def _columns(
    points: KernelPoints,
    ridges: np.ndarray,
    F: np.ndarray,
    rows: np.ndarray,
    support: np.ndarray,
) -> _Columns:
    """The columns of U for ``rows``, each from the small system of the rows that it depends on."""
    seen = F[support]
    left = (points.values_within(support) - seen @ seen.transpose(0, 2, 1)).astype(np.float64)
    diagonal = np.einsum("gii->gi", left)  # a view
    # a landmark leaves nothing, but for rounding
    np.maximum(diagonal, 0, out=diagonal)
    diagonal += ridges[support] + ROUNDING
    last = np.zeros((*support.shape, 1))
    last[:, -1] = 1
    entries = np.linalg.solve(left, last)[:, :, 0]
    # where rounding makes a small system indefinite, its row is on its own
    alone = ~(np.isfinite(entries).all(1) & (entries[:, -1] > 0))
    entries[alone] = last[alone, :, 0] / diagonal[alone, -1:]
    entries /= np.sqrt(entries[:, -1:])
    G = np.einsum("gk,gkm->gm", entries.astype(np.float32), seen)
    return _Columns(rows, support, entries, G)
