"""Exact search on a device: candidates from products in half precision, ranked by exact distances
in float64; queries that rounding leaves in doubt are searched again by products in float64.
"""

import threading
from contextlib import contextmanager

import numpy as np
import torch

from ..core.progress import emit
from ..core.slices import slices
from .ranks import DOUBLE_EPS, Found, Nearest, SearchQuery, product_gamma, rank_rows, tie_rule

SPARE = 22  # extra candidates: half precision confuses near ones
DISTANCES = 1 << 29  # held at a time
GATHERED = 1 << 26  # coordinates held at a time to measure distances
ROWS_AGAIN = 1024  # queries searched again at a time
CHUNK = 64  # columns represented by their least entry in a first selection
FORMATS = (torch.float16, torch.bfloat16)  # of products: more digits, or more range


def search(query: SearchQuery) -> Nearest:
    """Search exactly, on the device of the points.

    Rows are sorted by label: labels are compared only in the range of columns that has the labels
    of a block of queries. Memory: `DISTANCES`, two copies of the points in half precision,
    and the lists of candidates.
    """
    state = DeviceSearch(query)
    near_same, near_other = state.candidates()
    same = state.rank(True, query.n_same, *near_same)
    return Nearest(same, state.rank(False, query.n_other, *near_other))


class DeviceSearch:
    """Queries and references in the order of their labels, which are on the host too."""

    def __init__(self, query: SearchQuery):
        (self.X, y), (self.R, reference_y) = query[:2]
        self.device = self.X.device
        self.order, self.host_labels = self._by_label(y)
        self.reference_order, self.reference_host_labels = self._by_label(reference_y)
        self.labels = torch.as_tensor(self.host_labels, device=self.device)
        self.reference_labels = torch.as_tensor(self.reference_host_labels, device=self.device)
        place = torch.full((len(self.R) + 1,), -1, device=self.device)
        place[self.reference_order] = torch.arange(len(self.R), device=self.device)
        self.own = place[torch.as_tensor(query.own, device=self.device)[self.order]]
        numbers = query.numbers(np.arange(len(self.R)))
        self.numbers = torch.as_tensor(numbers, device=self.device)[self.reference_order]
        self.counts = query.n_same, query.n_other
        self._most_gathered = max(1, GATHERED // self.X.shape[1])
        self.centre = self.R.mean(0)
        longest = max(float(_lengths(X - self.centre).max()) for X in (self.X, self.R))
        self.unit = 2.0 ** np.ceil(np.log2(longest)) if longest > 0 else 1.0
        eps = max(torch.finfo(X.dtype).eps for X in (self.X, self.R))
        per_length, self.slope = tie_rule(self.X.shape[1], eps)
        first = self.R[:1]  # columns of one value do not count, as in `tie_widths`
        varying = (first != self.X).any(0) | (first != self.R).any(0)
        moved = self.X if bool(varying.all()) else self.X[:, varying]
        self.tie = per_length / self.unit * _lengths(moved)[self.order]

    def _by_label(self, y):
        order = np.argsort(y, kind="stable")
        return torch.as_tensor(order, device=self.device), y[order]

    def _centred(self, X):
        """Points relative to the centre, in ``unit``."""
        return (X - self.centre) / self.unit

    # ---- candidates

    def candidates(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """(references, limit) for each of the two lists: the nearest references of every query by
        products in half precision, -1 if there are too few, and the largest squared distance.
        """
        left, right = self._factors()
        shapes = [(len(left), count + SPARE if count else 0) for count in self.counts]
        far = torch.full_like(self.tie, torch.inf)
        lists = [(self.own.new_full(shape, -1), far.clone()) for shape in shapes]
        for rows in slices(len(left), len(right), DISTANCES):
            tile = _product(left[rows], right)
            mine = (self.own[rows] >= 0).nonzero()[:, 0]
            tile[mine, self.own[rows][mine]] = torch.inf
            ends = self.host_labels[rows.start], self.host_labels[rows.stop - 1]
            first = int(np.searchsorted(self.reference_host_labels, ends[0]))
            last = int(np.searchsorted(self.reference_host_labels, ends[1], "right"))
            labelled = tile[:, first:last]  # only here do the labels of these queries occur
            differ = self.labels[rows, None] != self.reference_labels[first:last]
            if self.counts[0]:
                one_label = ends[0] == ends[1]
                same = labelled if one_label else labelled.masked_fill(differ, torch.inf)
                _keep_least(same, first, rows, *lists[0])
            if self.counts[1]:
                labelled.masked_fill_(~differ, torch.inf)
                _keep_least(tile, 0, rows, *lists[1])
            emit("search", done=rows.stop / len(left))
        return lists

    def _factors(self):
        """Half-precision arrays (left, right), with ``left @ right.T`` the squared distances;
        columns beyond the references are infinite.

        A rounded point h = z - r has |r| <= rho |z|, which moves a squared distance by no more than
        rho (1 + rho / 2) (|z_i| + |z_j|)^2.
        """
        Z = self._centred(self.X[self.order]).float()
        Z_reference = self._centred(self.R[self.reference_order]).float()
        choices, least = [], torch.finfo(torch.float64).tiny
        for format in FORMATS:
            # the largest share of a point's length that is lost in the format
            lost = (_lengths(A - A.to(format)) / _lengths(A).clamp(least) for A in (Z, Z_reference))
            rho = max(float(shares.max()) for shares in lost)
            gamma = product_gamma(Z.shape[1], torch.finfo(torch.float32).eps) + rho * (1 + rho / 2)
            choices.append((gamma, format))
        self.gamma, self.format = min(choices, key=lambda choice: choice[0])
        squares, ones = _in_three(_lengths(Z) ** 2, self.format)
        left = _padded(-2 * Z.to(self.format), squares, ones)
        squares, ones = _in_three(_lengths(Z_reference) ** 2, self.format)
        right = _padded(Z_reference.to(self.format), ones, squares)
        missing = -len(right) % CHUNK
        beyond = torch.zeros((missing, right.shape[1]), dtype=self.format, device=self.device)
        beyond[:, Z.shape[1] + 3] = torch.inf
        return left, torch.cat([right, beyond])

    # ---- from candidates to neighbours

    def rank(self, same: bool, count: int, candidates: torch.Tensor, limit: torch.Tensor) -> Found:
        """The ``count`` nearest, searched again if more than a query's candidates may belong there."""
        n = len(self.order)
        numbers = torch.full((n, count), -1, device=self.device)
        distances = torch.full((n, count), torch.inf, device=self.device, dtype=torch.float64)
        farthest = torch.full((n,), torch.inf, device=self.device, dtype=torch.float64)
        if count == 0:
            return Found(numbers, distances)
        width = candidates.shape[1]
        for rows in torch.arange(n, device=self.device).split(max(1, self._most_gathered // width)):
            references = candidates[rows]
            exact = self._measure(rows, references).masked_fill(references < 0, torch.inf)
            near = Found(self.numbers[references], exact)
            found, farthest[rows] = rank_rows(near, count, self.tie[rows], self.slope)
            numbers[rows], distances[rows] = found
        reach = 2 * _lengths(self._centred(self.X[self.order]))
        bound = farthest**2 + self.gamma * (reach + farthest) ** 2
        half = torch.finfo(self.format)
        bound = bound * (1 + half.eps) + 4 * half.eps * half.smallest_normal
        again = (limit.isfinite() & ~(bound < limit)).nonzero()[:, 0]
        bound = farthest**2 + product_gamma(self.X.shape[1], DOUBLE_EPS) * (reach + farthest) ** 2
        for rows in again.split(ROWS_AGAIN) if len(again) else ():
            numbers[rows], distances[rows] = self._search_again(rows, same, bound[rows], count)
        answer = Found(torch.empty_like(numbers), torch.empty_like(distances))
        answer.numbers[self.order], answer.distances[self.order] = numbers, distances * self.unit
        return answer

    def _measure(self, queries, references):
        """Distances of queries (m,) to their references (m, k), by differences in float64."""
        X, R = self.X[self.order[queries]].double(), self.R[self.reference_order[references]]
        # the unit is a power of two: only the sum of squares is rounded
        differences = torch.sub(X[:, None] / self.unit, R, alpha=1 / self.unit)
        return torch.linalg.vector_norm(differences, dim=2)

    def _search_again(self, rows, same, bound, count):
        """The nearest of a few queries among all references within ``bound``, in float64."""
        pairs = self._within(rows, same, bound)
        if pairs is None:  # too many to hold
            halves = zip(rows.tensor_split(2), bound.tensor_split(2), strict=True)
            parts = [self._search_again(half, same, limit, count) for half, limit in halves]
            return tuple(torch.cat(part) for part in zip(*parts, strict=True))
        row, column = pairs[pairs[:, 0].argsort(stable=True)].T
        held = zip(row.split(self._most_gathered), column.split(self._most_gathered), strict=True)
        distances = torch.cat([self._measure(rows[i], j[:, None])[:, 0] for i, j in held])
        # one row of a table for each query, as wide as the longest
        size = torch.bincount(row, minlength=len(rows))
        slot = torch.arange(len(row), device=self.device) - (size.cumsum(0) - size)[row]
        exact = self.tie.new_full((len(rows), int(size.max())), torch.inf)
        numbers = torch.full_like(exact, -1, dtype=torch.int64)
        exact[row, slot], numbers[row, slot] = distances, self.numbers[column]
        return rank_rows(Found(numbers, exact), count, self.tie[rows], self.slope)[0]

    def _within(self, rows, same, bound):
        """Pairs (place in ``rows``, reference) within ``bound``; None if too many to hold."""
        Z = self._centred(self.X[self.order[rows]].double())
        found, n_found = [], 0
        step = max(1, DISTANCES // 8 // len(rows))
        for columns in torch.arange(len(self.R), device=self.device).split(step):
            Z_reference = self._centred(self.R[self.reference_order[columns]].double())
            tile = (Z * Z).sum(1)[:, None] + (Z_reference * Z_reference).sum(1)
            tile -= 2 * (Z @ Z_reference.T)
            wanted = (self.labels[rows, None] == self.reference_labels[columns]) == same
            wanted &= (tile <= bound[:, None]) & (columns != self.own[rows, None])
            pairs = wanted.nonzero()
            pairs[:, 1] += columns[0]
            found.append(pairs)
            n_found += len(pairs)
            if n_found > self._most_gathered and len(rows) > 1:
                return None
        return torch.cat(found)


def _product(left, right):
    """In half precision, summed in float32."""
    if not left.is_cuda:
        return (left.float() @ right.T.float()).to(left.dtype)
    with _sums_in_float32():
        return left @ right.T


_flags = threading.Lock()


@contextmanager
def _sums_in_float32():
    """Sum products in half precision in float32: by process-wide flags, all that PyTorch offers. They
    change while a product is launched, in one thread at a time, so that none restores what another
    has changed; products launched elsewhere meanwhile become more precise.
    """
    flags = "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"
    matmul = torch.backends.cuda.matmul
    with _flags:
        before = [getattr(matmul, flag) for flag in flags]
        try:
            for flag in flags:
                setattr(matmul, flag, False)
            yield
        finally:
            for flag, value in zip(flags, before, strict=True):
                setattr(matmul, flag, value)


def _lengths(X):
    return torch.linalg.vector_norm(X, dim=1, dtype=torch.float64)


def _in_three(squares, format):
    """``squares`` as the sum of three columns, and three columns of ones."""
    columns = []
    for _ in range(3):
        columns.append(squares.to(format))
        squares = squares - columns[-1]
    together = torch.stack(columns, 1)
    return together, torch.ones_like(together)


def _padded(*columns):
    """Side by side, with columns of zeros up to a multiple of 16, as tensor cores want."""
    joined = torch.cat(columns, 1)
    return torch.nn.functional.pad(joined, (0, -joined.shape[1] % 16))


def _keep_least(tile, first, rows, candidates, limit):
    """Write the least entries of each row of a tile (columns from ``first``) to the lists."""
    count = min(candidates.shape[1], tile.shape[1])
    n_chunks = tile.shape[1] // CHUNK
    if n_chunks <= 2 * count:
        values, columns = tile.topk(count, dim=1, largest=False)
    else:  # each of the least entries is in one of the chunks with the least minima
        chunks = tile[:, : n_chunks * CHUNK].unflatten(1, (n_chunks, CHUNK))
        chosen = chunks.amin(2).topk(count, dim=1, largest=False).indices[:, :, None]
        values = chunks.gather(1, chosen.expand(-1, -1, CHUNK)).flatten(1)
        columns = (chosen * CHUNK + torch.arange(CHUNK, device=tile.device)).flatten(1)
        rest = torch.arange(n_chunks * CHUNK, tile.shape[1], device=tile.device)
        values = torch.cat([values, tile[:, rest]], 1)
        columns = torch.cat([columns, rest.expand(len(tile), -1)], 1)
        values, order = values.topk(count, dim=1, largest=False)
        columns = columns.gather(1, order)
    candidates[rows, :count] = torch.where(values.isfinite(), columns + first, -1)
    if count == candidates.shape[1]:
        limit[rows] = values[:, -1].double()
