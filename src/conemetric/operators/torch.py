"""The difference and the bilinear operator on PyTorch tensors, on the device of the data."""

from typing import Any

import torch
from torch.nn.functional import embedding_bag

from ..core.slices import slices
from .base import DifferenceOperator
from .bilinear import BilinearOperator


class TorchOperator(DifferenceOperator):
    def _prepare(self):
        order = torch.argsort(self.pair, stable=True)
        constraint = torch.arange(self.n_constraints, device=self.X.device, dtype=torch.int32)
        constraint = torch.repeat_interleave(constraint, self.row_start[1:] - self.row_start[:-1])
        self._entry_weight, self._entry_constraint = self.weight[order], constraint[order]
        self._pair_start = _starts(self.pair[order], self.n_pairs)
        ends = torch.cat([self.a, self.b])
        self._end_order = torch.argsort(ends, stable=True)
        self._end_start = _starts(ends[self._end_order], self.n_points)
        self._first = _starts(self.a, self.n_points)
        sizes = torch.unique(self.row_start[1:] - self.row_start[:-1])
        # entries of each constraint, if all have the same number
        self._n_entries = int(sizes[0]) if len(sizes) == 1 else None

    def combine(self, q: Any) -> Any:
        return self._per_constraint(self.weight * q[self.pair])

    def _combine_sizes(self, q):
        return self._per_constraint(self.weight.abs() * q[self.pair])

    def _per_constraint(self, values):
        if self._n_entries:
            return values.reshape(-1, self._n_entries).sum(1)
        return _segment_sums(values, self.row_start)

    def distribute(self, u: Any) -> Any:
        return _segment_sums(self._entry_weight * u[self._entry_constraint], self._pair_start)

    def pair_forward(self, M: Any) -> Any:
        Y = self.X @ M
        X, vecdot = self.X, torch.linalg.vecdot
        return self._per_pair(lambda a, b: vecdot(X[a] - X[b], Y[a] - Y[b]), Y.shape[1])

    def _pair_squared_distances(self, Y):
        norm = torch.linalg.vector_norm
        return self._per_pair(lambda a, b: norm(Y[a].sub_(Y[b]), dim=1).square(), Y.shape[1])

    def _per_pair(self, function, width):
        parts = _in_blocks(function, width, self.a, self.b)
        return torch.cat(parts) if parts else self.X.new_zeros(0)

    def pair_adjoint(self, w: Any) -> Any:
        degree = _segment_sums(torch.cat([w, w])[self._end_order], self._end_start)
        G = 0.5 * degree[:, None] * self.X
        G -= _weighted_rows(w, self.X, self.b, self._first)
        S = self.X.T @ G
        return S + S.T


class TorchBilinear(BilinearOperator):
    def _prepare(self):
        ends = torch.cat([self.better, self.worse])
        self._order = torch.argsort(ends, stable=True)
        self._pair_start = _starts(ends[self._order], self.n_pairs)
        self._first = _starts(self.query, len(self.queries))

    def pair_scores(self, mapped: Any) -> Any:
        def scores(i, j):
            return torch.linalg.vecdot(mapped[i], self.documents[j])

        return torch.cat(_in_blocks(scores, mapped.shape[1], self.query, self.document))

    def distribute(self, u: Any) -> Any:
        return _segment_sums(torch.cat([u, -u])[self._order], self._pair_start)

    def weighted_documents(self, w: Any) -> Any:
        return _weighted_rows(w, self.documents, self.document, self._first)


def _in_blocks(function, width, a, b):
    """``function`` of the pairs (a, b) in blocks, so that no (pairs x features) array exists."""
    return [function(a[part], b[part]) for part in slices(len(a), width)]


def _weighted_rows(w, X, b, first):
    """For each i the sum of w[p] X[b[p]], p in ``first[i]:first[i + 1]``, in a fixed order."""
    return embedding_bag(
        b, X, first.to(b.dtype), mode="sum", per_sample_weights=w, include_last_offset=True
    )


def _starts(sorted_numbers, n):
    """Where each of 0 ... n-1 starts in a sorted list, and where the list ends."""
    numbers = torch.arange(n + 1, device=sorted_numbers.device, dtype=sorted_numbers.dtype)
    return torch.searchsorted(sorted_numbers.contiguous(), numbers)


def _segment_sums(values, start):
    """Sum of ``values[start[i]:start[i+1]]`` for every i, in a fixed order, unlike sparse products."""
    return torch.segment_reduce(values, "sum", offsets=start)
