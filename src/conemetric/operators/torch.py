"""The difference operator on PyTorch tensors; everything stays on the device of X."""

from functools import cached_property
from itertools import pairwise

import numpy as np
import torch

from .base import DifferenceOperator

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
        """Apply ``function`` to the pairs in blocks, so that no (pairs x features) array exists."""
        block = max(1, BLOCK // max(1, width))
        parts = [
            function(self.a[start : start + block], self.b[start : start + block])
            for start in range(0, self.n_pairs, block)
        ]
        return torch.cat(parts) if parts else self.X.new_zeros(0)

    def pair_adjoint(self, w):
        degree = _segment_sums(torch.cat([w, w])[self._end_order], self._end_start)
        G = 0.5 * degree[:, None] * self.X
        for rows, pairs in self._row_blocks:
            weighted = w[pairs, None] * self.X[self.b[pairs]]
            G[rows] -= _segment_sums(
                weighted, self._first[rows.start : rows.stop + 1] - pairs.start
            )
        S = self.X.T @ G
        return S + S.T

    @cached_property
    def _row_blocks(self):
        """Ranges of points, and of the pairs that begin in them, of at most about
        `BLOCK` scalars of differences each.
        """
        first = self._first.cpu().numpy()
        per_block = max(1, BLOCK // self.n_features)
        cuts = np.searchsorted(first, np.arange(0, self.n_pairs, per_block))
        cuts = np.unique([0, *cuts, self.n_points])
        return [(slice(lo, hi), slice(first[lo], first[hi])) for lo, hi in pairwise(cuts.tolist())]


def _starts(sorted_numbers, n):
    """Where each of 0 ... n-1 begins in a sorted list, and the list's end."""
    numbers = torch.arange(n + 1, device=sorted_numbers.device, dtype=sorted_numbers.dtype)
    return torch.searchsorted(sorted_numbers.contiguous(), numbers)


def _segment_sums(values, start):
    """Sum of ``values[start[i]:start[i+1]]`` for every i, in a fixed order: the same
    bits every time, unlike sparse products.
    """
    return torch.segment_reduce(values, "sum", offsets=start)
