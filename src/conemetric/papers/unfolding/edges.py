"""The difference operator over the edges of a graph, for kernels of its points (X = I).

    forward   A(K)_e = K_aa + K_bb - 2 K_ab          with K = Y Y':  ||Y_a - Y_b||^2
    adjoint   A*(u) = Lap(u), the weighted graph Laplacian: one entry per edge, dense only for a decomposition

`ReducedEdges` is the same operator on kernels K = Q M Q' spanned by the columns of Q (landmarks).
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from ...core.arrays import identity, like, zeros
from ...core.cholesky import cholesky_solver
from ...core.spectral import NearProduct
from ...engine.operators.base import NewtonOperator, RestrictableOperator, kernels_of

AT_ONCE = 16  # matrices of the size of the kernel that a Newton matrix holds
LEAST_DAMPING = 1e-14  # keeps a system with redundant edges regular


class DistanceOperator(NewtonOperator):
    """A_r = a_r a_r', where a_r'Y is the difference of Y along an edge."""

    @abstractmethod
    def differences(self, Y: Any) -> Any:
        """a_r'Y for every edge."""

    def moved(self, L: Any, change: Any, which: Any = None, damping: float = 0.0) -> Any:
        """L + A*(y) L whose distances differ by ``change``, to first order: all, or ``which``; with
        ``damping``, by less, relative to the diagonal of the system for y.
        """
        y = change * 0
        used = _selection(which)
        if len(change[used]):
            H = self.gauss_newton_matrix(L, used)
            H = H + damping * self.xp.diag(self.xp.linalg.diagonal(H))
            y[used] = cholesky_solver(H)(change[used])
        return L + self.adjoint_product(y, L)

    def gauss_newton_matrix(self, L: Any, which: Any) -> Any:
        """<A_r, A_s K + K A_s>, K = L L': how y moves distances of (I + A*(y)) K (I + A*(y))."""
        ends = self.differences(identity(self.n_features, L))[which]
        rows = self.differences(L)[which]
        # a_r'(a_s a_s' K + K a_s a_s') a_r = 2 (a_r'a_s) (a_r'K a_s)
        return 2 * (ends @ ends.T) * (rows @ rows.T)

    def smoother(self, weights: Any, ridge: float) -> Callable[[Any], Any]:
        """The map Y -> (A*(w) + ridge I)^-1 Y, for weights w with mean diagonal entry 1 of A*(w)."""
        A = self.adjoint(weights)
        scaled = A / A.diagonal().mean() + ridge * identity(len(A), A)
        return partial(self.xp.matmul, self.xp.linalg.inv(scaled))


class EdgeOperator(DistanceOperator, RestrictableOperator):
    """Squared distances along the edges of a graph, of a kernel matrix over its points.

    ``edges`` (m, 2) are distinct pairs of different points; ``reference`` sets library, dtype and
    device. ``ignores_constants`` means A*(u) 1 = 0: a problem must handle the constant vector.
    """

    ignores_constants = True

    def __init__(self, edges: Any, n_points: int, reference: Any):
        self.n_constraints = len(edges)
        self.n_points = self.n_features = n_points
        self.reference = zeros(0, reference)
        self.edges = np.asarray(edges, dtype=np.int32)
        int32 = self.xp.int32
        a, b = self.edges.T.copy()
        self._a = like(a, self.reference, int32)
        self._b = like(b, self.reference, int32)
        # adjacency in compressed rows: entry k joins its row to _neighbour[k] by edge _number[k]
        ends = np.append(a, b)
        others = np.append(b, a)
        order = np.lexsort((others, ends))
        start = np.searchsorted(ends[order], np.arange(n_points + 1))
        self._start = like(start, self.reference, int32)
        self._row = like(ends[order], self.reference, int32)
        self._neighbour = like(others[order], self.reference, int32)
        self._number = like(order % len(edges), self.reference, self.xp.int64)

    def forward(self, M: Any) -> Any:
        diagonal = self.xp.linalg.diagonal(M)
        return diagonal[self._a] + diagonal[self._b] - 2 * M[self._a, self._b]

    def forward_factor(self, L: Any) -> Any:
        return kernels_of(L).squared_distances(L, self._a, self._b)

    def forward_product(self, B: Any, C: Any) -> Any:
        return kernels_of(B).difference_products(B, C, self._a, self._b)

    def adjoint(self, u: Any) -> Any:
        S = zeros((self.n_points, self.n_points), u)
        S[self._a, self._b] = S[self._b, self._a] = -u
        i = self.xp.arange(self.n_points, device=u.device)
        S[i, i] = self._degrees(u)
        return S

    def adjoint_product(self, u: Any, Y: Any) -> Any:
        if self.xp is np:
            lost = kernels_of(Y).weighted_sums(u[self._number], Y, self._neighbour, self._start)
            return self._degrees(u)[:, None] * Y - lost
        flow = u[self._number, None] * (Y[self._row] - Y[self._neighbour])
        return kernels_of(u).segment_sums(flow, like(self._start, u, self.xp.int64))

    def moved(self, L: Any, change: Any, which: Any = None, damping: float = 0.0) -> Any:
        if self.xp is not np:
            return super().moved(L, change, which, damping)
        used = _selection(which)
        a = self._a[used]
        b = self._b[used]
        y = change * 0
        m = len(a)
        if m:
            # the Gauss-Newton matrix is sparse: zero where two edges share no point
            rows = L[a] - L[b]
            places = np.tile(np.arange(m), 2), np.append(a, b)
            ends = sparse.csr_array((np.repeat([1.0, -1.0], m), places), (m, self.n_points))
            H = (ends @ ends.T).tocoo()
            H.data = 2 * H.data * kernels_of(L).inner_products(rows, rows, H.row, H.col)
            ridge = (damping + LEAST_DAMPING) * H.diagonal()
            solve = symmetric_solver(H.tocsc() + sparse.diags_array(ridge, format="csc"))
            y[used] = solve(change[used])
        return L + self.adjoint_product(y, L)

    def curvature_solver(
        self, Y: Any, multipliers: Any, mu: Any, diagonal: Any
    ) -> Callable[[Any], Any]:
        """The map G -> H^-1 G, where Z'HZ = 2 sum_e |u_e| ||Z_a - Z_b||^2 + 4 mu_e ((Y_a - Y_b)'(Z_a -
        Z_b))^2 + sum_i z_i' ``diagonal`` z_i: the curvature of an augmented Lagrangian at Y.
        """
        n, r = Y.shape
        d = self.differences(Y)
        blocks = (4 * mu)[:, None, None] * d[:, :, None] * d[:, None, :]
        blocks += (2 * abs(multipliers))[:, None, None] * np.eye(r)
        # the block of an edge enters at (a, a) and (b, b), and with the other sign at (a, b) and (b, a)
        rows = np.concatenate([self._a, self._b, self._a, self._b]).astype(np.int64)
        columns = np.concatenate([self._a, self._b, self._b, self._a]).astype(np.int64)
        values = np.concatenate([blocks, blocks, -blocks, -blocks])
        i = rows[:, None, None] * r + np.arange(r)[:, None]
        j = columns[:, None, None] * r + np.arange(r)
        i, j = np.broadcast_arrays(i, j)
        H = sparse.coo_array((values.ravel(), (i.ravel(), j.ravel())), (n * r, n * r)).tocsc()
        solve = symmetric_solver(H + sparse.kron(sparse.eye_array(n), diagonal, format="csc"))
        return lambda G: solve(G.reshape(-1)).reshape(G.shape)

    def adjoint_error(self, u: Any) -> float:
        """An upper bound on the Frobenius norm of what rounding can change in `adjoint`."""
        # entries beside the diagonal are exact, and a sum of k terms errs by k eps of their sizes
        sizes = self._degrees(abs(u))
        return self.eps * self.largest_degree * float(self.xp.linalg.vector_norm(sizes))

    @cached_property
    def largest_degree(self) -> int:
        """The most edges that meet in a point."""
        return int(np.bincount(self.edges.ravel()).max(initial=0))

    def signless_product(self, u: Any, Y: Any) -> Any:
        """sum_e |u_e| |a_e| |a_e|' Y: the sizes of what `adjoint_product` adds up."""
        return 2 * self._degrees(abs(u))[:, None] * Y - self.adjoint_product(abs(u), Y)

    def differences(self, Y: Any) -> Any:
        return Y[self._a] - Y[self._b]

    def newton_matrix(self, curvature: NearProduct) -> Any:
        """As there, for a positive ``change``."""
        W = curvature.whole
        leading = self.differences(curvature.leading)
        H: Any = 0.0
        for start in range(0, max(len(curvature.change), 1), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            # row i of `change` adds (d_r'q_i) (d_s'q_i) d_r'M_i d_s, M_i = Q diag(2 change_i) Q'
            matrices = [W]
            for change in curvature.change[part]:
                half = curvature.basis * (2 * change) ** 0.5
                matrices.append(half @ half.T)
            M = self.xp.stack(matrices)
            H = H + kernels_of(W).edge_products(M, leading[:, part], self._a, self._b)
            W = 0 * W  # it counts once
        return H

    def sparse_adjoint(self, u: Any) -> Any:
        """A*(u) as a SciPy sparse matrix (on the host only)."""
        shape = self.n_points, self.n_points
        entries = u[self._number], self._neighbour, self._start
        degrees = sparse.dia_array((self._degrees(u)[None], [0]), shape)
        return degrees.tocsr() - sparse.csr_array(entries, shape)

    def _degrees(self, u: Any) -> Any:
        """Return the diagonal of A*(u): of each point the sum of u over its edges."""
        if self.xp is np:
            n = self.n_points
            degrees = np.bincount(self._a, u, n) + np.bincount(self._b, u, n)
            return degrees.astype(u.dtype, copy=False)
        return kernels_of(u).segment_sums(u[self._number], like(self._start, u, self.xp.int64))

    def subset(self, index: Any) -> "EdgeOperator":
        return EdgeOperator(self.edges[np.asarray(index)], self.n_points, self.reference)

    def astype(self, dtype: Any) -> "EdgeOperator":
        if dtype == self.dtype:
            return self
        return EdgeOperator(self.edges, self.n_points, like(self.reference, self.reference, dtype))


def _selection(which: Any) -> Any:
    """Return ``which``, or a slice of all for None."""
    return slice(None) if which is None else which


def symmetric_solver(H: Any) -> Callable[[np.ndarray], np.ndarray]:
    """b -> H^-1 b for a sparse positive definite H."""
    options = {"SymmetricMode": True}
    return splu(H, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options).solve


class ReducedEdges(DistanceOperator):
    """An `EdgeOperator` on kernels K = Q M Q'; the variable is M. If Q (n_points, n_landmarks) has
    orthonormal columns, M has the trace and the Frobenius norm of K.
    """

    ignores_constants = False

    def __init__(self, edges: Any, Q: Any):
        self.edges = edges
        self.Q = Q
        self.reference = edges.reference
        self.n_constraints = edges.n_constraints
        self.n_features = Q.shape[1]

    def forward(self, M: Any) -> Any:
        return (self.differences(M) * self.edges.differences(self.Q)).sum(1)

    def forward_factor(self, L: Any) -> Any:
        return self.edges.forward_factor(self.Q @ L)

    def forward_product(self, B: Any, C: Any) -> Any:
        return self.edges.forward_product(self.Q @ B, self.Q @ C)

    def adjoint(self, u: Any) -> Any:
        S = self.Q.T @ self.edges.adjoint_product(u, self.Q)
        return (S + S.T) / 2

    def adjoint_product(self, u: Any, Y: Any) -> Any:
        return self.Q.T @ self.edges.adjoint_product(u, self.Q @ Y)

    def adjoint_error(self, u: Any) -> float:
        sizes = abs(self.Q).T @ self.edges.signless_product(u, abs(self.Q))
        terms = self.edges.n_points + self.edges.largest_degree
        return self.eps * terms * float(self.xp.linalg.vector_norm(sizes))

    def differences(self, Y: Any) -> Any:
        return self.edges.differences(self.Q @ Y)

    def newton_matrix(self, curvature: NearProduct) -> Any:
        whole = self.Q @ curvature.whole @ self.Q.T
        basis = self.Q @ curvature.basis
        return self.edges.newton_matrix(NearProduct(whole, basis, curvature.change))

    def astype(self, dtype: Any) -> "ReducedEdges":
        return ReducedEdges(self.edges.astype(dtype), like(self.Q, self.Q, dtype))
