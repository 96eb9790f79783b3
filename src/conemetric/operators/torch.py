"""The difference and the bilinear operator on PyTorch tensors; everything stays on the
device of the data.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np
import torch

from .base import DifferenceOperator
from .bilinear import BilinearOperator

BLOCK = 1 << 24  # scalars gathered at a time when pairs are read


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

    def combine(self, q):
        return _segment_sums(self.weight * q[self.pair], self.row_start)

    def _combine_sizes(self, q):
        return _segment_sums(self.weight.abs() * q[self.pair], self.row_start)

    def distribute(self, u):
        return _segment_sums(self._entry_weight * u[self._entry_constraint], self._pair_start)

    def pair_forward(self, M):
        Y = self.X @ M
        return self._per_pair(
            lambda a, b: torch.linalg.vecdot(self.X[a] - self.X[b], Y[a] - Y[b]), Y.shape[1]
        )

    def pair_forward_factor(self, L):
        return self._pair_squared_distances(self.X @ L)

    def _pair_squared_distances(self, Y):
        return self._per_pair(lambda a, b: (Y[a] - Y[b]).square().sum(1), Y.shape[1])

    def _per_pair(self, function, width):
        parts = _in_blocks(function, width, self.a, self.b)
        return torch.cat(parts) if parts else self.X.new_zeros(0)

    def pair_adjoint(self, w):
        degree = _segment_sums(torch.cat([w, w])[self._end_order], self._end_start)
        G = 0.5 * degree[:, None] * self.X
        for rows, total in _weighted_rows(w, self.X, self.b, self._first, self._row_blocks):
            G[rows] -= total
        S = self.X.T @ G
        return S + S.T

    @cached_property
    def _row_blocks(self):
        return _row_blocks(self._first, self.n_features)


class TorchBilinear(BilinearOperator):
    def _prepare(self):
        ends = torch.cat([self.better, self.worse])
        self._order = torch.argsort(ends, stable=True)
        self._pair_start = _starts(ends[self._order], self.n_pairs)
        self._first = _starts(self.query, len(self.queries))

    def pair_scores(self, mapped):
        parts = _in_blocks(
            lambda i, j: torch.linalg.vecdot(mapped[i], self.documents[j]),
            self.n_features,
            self.query,
            self.document,
        )
        return torch.cat(parts)

    def distribute(self, u):
        return _segment_sums(torch.cat([u, -u])[self._order], self._pair_start)

    def weighted_documents(self, w):
        total = torch.empty_like(self.queries)
        pairs = w, self.documents, self.document, self._first, self._row_blocks
        for rows, part in _weighted_rows(*pairs):
            total[rows] = part
        return total

    @cached_property
    def _row_blocks(self):
        return _row_blocks(self._first, self.n_features)


def _in_blocks(function, width, a, b):
    """``function`` of the pairs (a, b) in blocks, so that no (pairs x features) array exists."""
    block = max(1, BLOCK // max(1, width))
    return [
        function(a[start : start + block], b[start : start + block])
        for start in range(0, len(a), block)
    ]


def _row_blocks(first, width):
    """Ranges of rows, and of the pairs that begin in them, of at most about `BLOCK`
    scalars each; row i begins the pairs ``first[i]:first[i + 1]``.
    """
    first = first.cpu().numpy()
    cuts = np.searchsorted(first, np.arange(0, first[-1], max(1, BLOCK // width)))
    cuts = np.unique([0, *cuts, len(first) - 1])
    return [(slice(lo, hi), slice(first[lo], first[hi])) for lo, hi in pairwise(cuts.tolist())]


def _weighted_rows(w, X, b, first, blocks):
    """Yield (rows, sums over the pairs p that begin in each row of w[p] X[b[p]])."""
    for rows, pairs in blocks:
        weighted = w[pairs, None] * X[b[pairs]]
        yield rows, _segment_sums(weighted, first[rows.start : rows.stop + 1] - pairs.start)


def _starts(sorted_numbers, n):
    """Where each of 0 ... n-1 begins in a sorted list, and the list's end."""
    numbers = torch.arange(n + 1, device=sorted_numbers.device, dtype=sorted_numbers.dtype)
    return torch.searchsorted(sorted_numbers.contiguous(), numbers)


def _segment_sums(values, start):
    """Sum of ``values[start[i]:start[i+1]]`` for every i, in a fixed order: the same
    bits every time, unlike sparse products.
    """
    return torch.segment_reduce(values, "sum", offsets=start)
