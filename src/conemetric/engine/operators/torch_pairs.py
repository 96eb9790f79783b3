"""The difference operator on PyTorch tensors, on the device of the data."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from ...core.slices import slices
from .base import DifferenceOperator, starts


class PairOperator(DifferenceOperator):
    def __init__(self, X: Tensor, a: Tensor, b: Tensor, incidence: tuple[Tensor, ...]):
        super().__init__(X, a, b, incidence)
        order = torch.argsort(self.pair, stable=True)
        constraint = torch.arange(self.n_constraints, device=self.X.device, dtype=torch.int32)
        constraint = torch.repeat_interleave(constraint, self.row_start[1:] - self.row_start[:-1])
        self._entry_weight = self.weight[order]
        self._entry_constraint = constraint[order]
        self._pair_start = starts(self.pair[order], self.n_pairs)
        ends = torch.cat([self.a, self.b])
        self._end_order = torch.argsort(ends, stable=True)
        self._end_start = starts(ends[self._end_order], self.n_points)
        self._first = starts(self.a, self.n_points)
        sizes = torch.unique(self.row_start[1:] - self.row_start[:-1])
        # entries of each constraint, if all have the same number
        self._n_entries = int(sizes[0]) if len(sizes) == 1 else None

    def combine(self, q: Tensor, sizes: bool = False) -> Tensor:
        weight = torch.abs(self.weight) if sizes else self.weight
        values = weight * q[self.pair]
        if self._n_entries:
            return values.reshape(-1, self._n_entries).sum(1)
        return segment_sums(values, self.row_start)

    def distribute(self, u: Tensor) -> Tensor:
        return segment_sums(self._entry_weight * u[self._entry_constraint], self._pair_start)

    def pair_forward(self, M: Tensor) -> Tensor:
        return difference_products(self.X, self.X @ M, self.a, self.b)

    def pair_adjoint(self, w: Tensor) -> Tensor:
        degree = segment_sums(torch.cat([w, w])[self._end_order], self._end_start)
        G = 0.5 * degree[:, None] * self.X
        G -= weighted_sums(w, self.X, self.b, self._first)
        S = self.X.T @ G
        return S + S.T


def squared_distances(Y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """||Y_a - Y_b||^2 of every pair."""
    norm = torch.linalg.vector_norm
    return _in_blocks(lambda i, j: norm(Y[i].sub_(Y[j]), dim=1).square(), Y, a, b)


def edge_products(M: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """(d_r'M_0 d_s)^2 + sum_i w_ri w_si d_r'M_i d_s of all pairs d_r = e_a - e_b, d_s (M_i symmetric)."""
    along = M[:, a] - M[:, b]
    between = along[:, :, a] - along[:, :, b]
    return between[0] ** 2 + torch.einsum("ri,si,irs->rs", w, w, between[1:])


def inner_products(Y: Tensor, Z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """<Y_a, Z_b> of every pair."""
    return _in_blocks(lambda i, j: torch.linalg.vecdot(Y[i], Z[j]), Y, a, b)


def difference_products(Y: Tensor, Z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """<Y_a - Y_b, Z_a - Z_b> of every pair."""
    return _in_blocks(lambda i, j: torch.linalg.vecdot(Y[i] - Y[j], Z[i] - Z[j]), Y, a, b)


def _in_blocks(function: Callable[..., Tensor], Y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``function`` of the pairs (a, b) in blocks, so that no (pairs x features) array exists."""
    parts = [function(a[part], b[part]) for part in slices(len(a), Y.shape[1])]
    if not parts:
        return Y.new_zeros(0)
    return torch.cat(parts)


def weighted_sums(w: Tensor, X: Tensor, b: Tensor, first: Tensor) -> Tensor:
    """For each i the sum of w[p] X[b[p]], p in ``first[i]:first[i + 1]``, in a fixed order."""
    return embedding_bag(
        b, X, first.to(b.dtype), mode="sum", per_sample_weights=w, include_last_offset=True
    )


def segment_sums(values: Tensor, start: Tensor) -> Tensor:
    """Sum of ``values[start[i]:start[i+1]]`` for every i, in a fixed order, unlike sparse products."""
    return torch.segment_reduce(values, "sum", offsets=start)
