"""Exact search on a device: candidates from products in half precision, ranked by exact distances
in float64; queries that rounding leaves in doubt are searched again by products in float64.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch

from ..core.progress import emit
from ..core.slices import slices
from .ranks import (
    DOUBLE_EPS,
    NearestByLabel,
    NearestRows,
    SearchQuery,
    Ties,
    product_gamma,
    rank_rows,
    tie_rule,
)

SPARE_CANDIDATES = 22  # of each query: half precision confuses near ones
MAX_DISTANCES = 1 << 29  # held at a time
MAX_COORDINATES = 1 << 26  # held at a time to measure distances
MAX_ROWS_AGAIN = 1024  # queries searched again at a time
CHUNK = 64  # columns represented by their least entry in a first selection
MIN_CHUNKS_PER_CANDIDATE = 2  # with fewer, selecting by chunks saves nothing
FORMATS = (torch.float16, torch.bfloat16)  # of products: more digits, or more range
N_PARTS = 3  # numbers in half precision whose sum holds a squared length in single precision
TENSOR_CORE_COLUMNS = 16  # tensor cores multiply matrices with multiples of so many columns


def search(query: SearchQuery) -> NearestByLabel:
    """Search exactly, on the device of the points.

    Rows are sorted by label: labels are compared only in the range of columns that has the labels
    of a block of queries. Memory: `MAX_DISTANCES`, two copies of the points in half precision,
    and the lists of candidates.
    """
    state = DeviceSearch(query)
    near_same, near_other = state.candidates()
    same_label = state.rank(True, near_same)
    return NearestByLabel(same_label, state.rank(False, near_other))


class Candidates(NamedTuple):
    """A list of candidates for each query, in no order."""

    references: torch.Tensor  # (n, c); -1 if there are too few
    limits: torch.Tensor  # (n,), the largest squared distance; infinite if there are too few


class Precision(NamedTuple):
    """A format of products, and gamma of the squared distances they give."""

    gamma: float
    format: torch.dtype


class Points(NamedTuple):
    """Points as they were passed, and their order by label; labels are in this order."""

    X: torch.Tensor
    order: torch.Tensor
    labels: torch.Tensor
    host_labels: np.ndarray

    @classmethod
    def by_label(cls, X: torch.Tensor, y: np.ndarray) -> "Points":
        """Sort points by their labels."""
        order = np.argsort(y, kind="stable")
        on_device = torch.as_tensor(order, device=X.device)
        return cls(X, on_device, torch.as_tensor(y[order], device=X.device), y[order])

    def sorted(self, places: torch.Tensor | slice = slice(None)) -> torch.Tensor:
        """Return the points at some places of the order."""
        return self.X[self.order[places]]


class DeviceSearch:
    """Queries and references in the order of their labels, which are on the host too.

    Distances are about the mean of the references, in a unit of length that is a power of two, so that
    only sums of squares are rounded.
    """

    def __init__(self, query: SearchQuery) -> None:
        self.query = query
        self.queries = Points.by_label(*query.queries)
        self.references = Points.by_label(*query.references)
        X = self.queries.X
        R = self.references.X
        self.device = X.device
        n_references = len(R)
        # where a reference has gone; the entry -1, for queries that are none, stays -1
        place = torch.full((n_references + 1,), -1, device=self.device)
        place[self.references.order] = torch.arange(n_references, device=self.device)
        own = torch.as_tensor(query.own, device=self.device)
        self.own = place[own[self.queries.order]]
        numbers = torch.as_tensor(query.numbers(np.arange(n_references)), device=self.device)
        self.numbers = numbers[self.references.order]
        self.centre = R.mean(0)
        longest = max(float(_lengths(points - self.centre).max()) for points in (X, R))
        self.unit = 1.0
        if longest > 0:
            self.unit = 2.0 ** np.ceil(np.log2(longest))
        self.ties = self._ties()
        self._max_measured = max(1, MAX_COORDINATES // X.shape[1])

    def _ties(self) -> Ties:
        """Return the ties of the queries, in their order; as `ranks.tie_widths`."""
        X = self.queries.X
        R = self.references.X
        eps = max(torch.finfo(points.dtype).eps for points in (X, R))
        rule = tie_rule(X.shape[1], eps)
        # columns of one value do not count: rounding moves no distance there
        first = R[:1]
        varying = (first != X).any(0) | (first != R).any(0)
        if not bool(varying.all()):
            X = X[:, varying]
        widths = rule.per_length / self.unit * _lengths(X)
        return Ties(widths[self.queries.order], rule.slope)

    def _centred(self, X: torch.Tensor) -> torch.Tensor:
        """Return points about the centre, in units of length."""
        return (X - self.centre) / self.unit

    # ---- candidates

    def candidates(self) -> tuple[Candidates, Candidates]:
        """Find the nearest references of every query by products in half precision.

        Return candidates with the label of the query, and with others.
        """
        left, right = self._factors()
        same = self._no_candidates(self.query.n_same)
        other = self._no_candidates(self.query.n_other)
        for rows in slices(len(left), len(right), MAX_DISTANCES):
            tile = _product(left[rows], right)
            is_reference = (self.own[rows] >= 0).nonzero()[:, 0]
            tile[is_reference, self.own[rows][is_reference]] = torch.inf
            # the labels of these queries occur in a range of columns only
            lowest = self.queries.host_labels[rows.start]
            highest = self.queries.host_labels[rows.stop - 1]
            first = int(np.searchsorted(self.references.host_labels, lowest))
            last = int(np.searchsorted(self.references.host_labels, highest, "right"))
            labelled = tile[:, first:last]
            differ = self.queries.labels[rows, None] != self.references.labels[first:last]
            if self.query.n_same:
                of_same_label = labelled
                # else every column of the range has the one label of these queries
                if lowest != highest:
                    of_same_label = labelled.masked_fill(differ, torch.inf)
                _keep_least(of_same_label, first, rows, same)
            if self.query.n_other:
                # in place, as the last use of the tile: this range is a view of it, so the whole
                # tile then holds other labels only
                labelled.masked_fill_(~differ, torch.inf)
                _keep_least(tile, 0, rows, other)
            emit("search", done=rows.stop / len(left))
        return same, other

    def _no_candidates(self, count: int) -> Candidates:
        """Return empty lists for the ``count`` nearest of every query."""
        width = 0
        if count:
            width = count + SPARE_CANDIDATES
        references = self.own.new_full((len(self.own), width), -1)
        return Candidates(references, torch.full_like(self.ties.widths, torch.inf))

    def _factors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return half-precision arrays (left, right), with ``left @ right.T`` the squared distances.

        |x - y|^2 is the product of (-2 x, |x|^2, 1) and (y, 1, |y|^2), each square in `N_PARTS` columns.
        Columns beyond the references, up to full chunks, are infinite.
        """
        Z = self._centred(self.queries.sorted()).float()
        Z_reference = self._centred(self.references.sorted()).float()
        self.gamma, self.format = _precision(Z, Z_reference)
        squares, ones = _in_parts(_lengths(Z) ** 2, self.format)
        left = _padded(-2 * Z.to(self.format), squares, ones)
        squares, ones = _in_parts(_lengths(Z_reference) ** 2, self.format)
        right = _padded(Z_reference.to(self.format), ones, squares)
        n_missing = -len(right) % CHUNK
        beyond = torch.zeros((n_missing, right.shape[1]), dtype=self.format, device=self.device)
        first_of_squares = Z.shape[1] + N_PARTS
        beyond[:, first_of_squares] = torch.inf
        return left, torch.cat([right, beyond])

    # ---- from candidates to neighbours

    def rank(self, same: bool, candidates: Candidates) -> NearestRows:
        """Return the nearest of the candidates, with the label of the query or (not ``same``) others.

        A query is searched again if more than its candidates may belong to the nearest.
        """
        count = self.query.n_same if same else self.query.n_other
        n = len(self.own)
        numbers = torch.full((n, count), -1, device=self.device)
        distances = torch.full((n, count), torch.inf, device=self.device, dtype=torch.float64)
        if count == 0:
            return NearestRows(numbers, distances)
        farthest = torch.full((n,), torch.inf, device=self.device, dtype=torch.float64)
        rows_at_a_time = max(1, self._max_measured // candidates.references.shape[1])
        for rows in torch.arange(n, device=self.device).split(rows_at_a_time):
            references = candidates.references[rows]
            exact = self._measure(rows, references).masked_fill(references < 0, torch.inf)
            measured = NearestRows(self.numbers[references], exact)
            nearest, farthest[rows] = rank_rows(measured, count, self.ties.of(rows))
            numbers[rows] = nearest.numbers
            distances[rows] = nearest.distances
        reach = 2 * _lengths(self._centred(self.queries.sorted()))
        in_half = self._bounds_in_half(farthest, reach)
        list_is_full = candidates.limits.isfinite()
        doubtful = (list_is_full & ~(in_half < candidates.limits)).nonzero()[:, 0]
        gamma = product_gamma(self.queries.X.shape[1], DOUBLE_EPS)
        bounds = farthest**2 + gamma * (reach + farthest) ** 2
        if len(doubtful):
            for rows in doubtful.split(MAX_ROWS_AGAIN):
                nearest = self._search_again(rows, same, bounds[rows], count)
                numbers[rows] = nearest.numbers
                distances[rows] = nearest.distances
        answer = NearestRows(torch.empty_like(numbers), torch.empty_like(distances))
        answer.numbers[self.queries.order] = numbers
        answer.distances[self.queries.order] = distances * self.unit
        return answer

    def _bounds_in_half(self, farthest: torch.Tensor, reach: torch.Tensor) -> torch.Tensor:
        """Return the largest squares that candidates as near as ``farthest`` can have in half precision."""
        bounds = farthest**2 + self.gamma * (reach + farthest) ** 2
        half = torch.finfo(self.format)
        # the squares themselves are rounded once more, also where they are tiny
        return bounds * (1 + half.eps) + 4 * half.eps * half.smallest_normal

    def _measure(self, queries: torch.Tensor, references: torch.Tensor) -> torch.Tensor:
        """Return distances of queries (m,) to their references (m, k), by differences in float64."""
        X = self.queries.sorted(queries).double()
        R = self.references.sorted(references)
        # the unit is a power of two: only the sum of squares is rounded
        differences = torch.sub(X[:, None] / self.unit, R, alpha=1 / self.unit)
        return torch.linalg.vector_norm(differences, dim=2)

    def _search_again(
        self, rows: torch.Tensor, same: bool, bounds: torch.Tensor, count: int
    ) -> NearestRows:
        """Return the nearest of a few queries among all references within ``bounds``, in float64."""
        pairs = self._pairs_within(rows, same, bounds)
        if pairs is None:  # too many to hold
            halves = []
            for half, limits in zip(rows.tensor_split(2), bounds.tensor_split(2), strict=True):
                halves.append(self._search_again(half, same, limits, count))
            first, second = halves
            return NearestRows(
                torch.cat([first.numbers, second.numbers]),
                torch.cat([first.distances, second.distances]),
            )
        # together by query, so that a place in its row of the table follows from a count
        place, reference = pairs[pairs[:, 0].argsort(stable=True)].T
        measured = []
        places = place.split(self._max_measured)
        references = reference.split(self._max_measured)
        for some_places, some_references in zip(places, references, strict=True):
            measured.append(self._measure(rows[some_places], some_references[:, None])[:, 0])
        # one row of a table for each query, as wide as the longest
        sizes = torch.bincount(place, minlength=len(rows))
        starts = sizes.cumsum(0) - sizes
        slot = torch.arange(len(place), device=self.device) - starts[place]
        exact = self.ties.widths.new_full((len(rows), int(sizes.max())), torch.inf)
        numbers = torch.full_like(exact, -1, dtype=torch.int64)
        exact[place, slot] = torch.cat(measured)
        numbers[place, slot] = self.numbers[reference]
        return rank_rows(NearestRows(numbers, exact), count, self.ties.of(rows)).nearest

    def _pairs_within(
        self, rows: torch.Tensor, same: bool, bounds: torch.Tensor
    ) -> torch.Tensor | None:
        """Return pairs (place in ``rows``, reference) within ``bounds``; None if too many to hold."""
        Z = self._centred(self.queries.sorted(rows).double())
        squares = (Z * Z).sum(1)
        found = []
        n_found = 0
        # float64 takes four times the memory of half precision, and the products below are a second tile
        columns_at_a_time = max(1, MAX_DISTANCES // 8 // len(rows))
        every_column = torch.arange(len(self.references.X), device=self.device)
        for columns in every_column.split(columns_at_a_time):
            Z_reference = self._centred(self.references.sorted(columns).double())
            tile = squares[:, None] + (Z_reference * Z_reference).sum(1)
            tile -= 2 * (Z @ Z_reference.T)
            same_label = self.queries.labels[rows, None] == self.references.labels[columns]
            admitted = same_label == same
            admitted &= (tile <= bounds[:, None]) & (columns != self.own[rows, None])
            pairs = admitted.nonzero()
            pairs[:, 1] += columns[0]
            found.append(pairs)
            n_found += len(pairs)
            if n_found > self._max_measured and len(rows) > 1:
                return None
        return torch.cat(found)


# ---- products in half precision


def _precision(Z: torch.Tensor, Z_reference: torch.Tensor) -> Precision:
    """Return the format of products that rounds squared distances of these points the least.

    A rounded point h = z - r has |r| <= rho |z|, which moves a squared distance by no more than
    rho (1 + rho / 2) (|z_i| + |z_j|)^2.
    """
    of_sums = product_gamma(Z.shape[1], torch.finfo(torch.float32).eps)
    choices = []
    for format in FORMATS:
        rho = max(_lost_share(Z, format), _lost_share(Z_reference, format))
        choices.append(Precision(of_sums + rho * (1 + rho / 2), format))
    return min(choices, key=lambda choice: choice.gamma)


def _lost_share(Z: torch.Tensor, format: torch.dtype) -> float:
    """Return the largest share of a point's length that is lost in a format."""
    shares = _lengths(Z - Z.to(format)) / _lengths(Z).clamp(torch.finfo(torch.float64).tiny)
    return float(shares.max())


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return ``left @ right.T`` in half precision, summed in float32."""
    if not left.is_cuda:
        return (left.float() @ right.T.float()).to(left.dtype)
    with _sums_in_float32():
        return left @ right.T


_flags = threading.Lock()


@contextmanager
def _sums_in_float32() -> Iterator[None]:
    """Sum products in half precision in float32: by process-wide flags, all that PyTorch offers.

    They change while a product is launched, in one thread at a time, so that none restores what another
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


def _lengths(X: torch.Tensor) -> torch.Tensor:
    """Return the length of each row, in float64."""
    return torch.linalg.vector_norm(X, dim=1, dtype=torch.float64)


def _in_parts(squares: torch.Tensor, format: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``squares`` as the sum of `N_PARTS` columns in a format, and as many columns of ones."""
    columns = []
    for _ in range(N_PARTS):
        rounded = squares.to(format)
        columns.append(rounded)
        squares = squares - rounded
    parts = torch.stack(columns, 1)
    return parts, torch.ones_like(parts)


def _padded(*columns: torch.Tensor) -> torch.Tensor:
    """Return arrays side by side, with columns of zeros up to what tensor cores multiply."""
    array = torch.cat(columns, 1)
    n_missing = -array.shape[1] % TENSOR_CORE_COLUMNS
    return torch.nn.functional.pad(array, (0, n_missing))


# ---- selection


def _keep_least(tile: torch.Tensor, first: int, rows: slice, candidates: Candidates) -> None:
    """Enter the least entries of each row of a tile, whose column 0 is reference ``first``, as
    candidates of these rows.
    """
    width = candidates.references.shape[1]
    count = min(width, tile.shape[1])
    squares, columns = _least(tile, count)
    candidates.references[rows, :count] = torch.where(squares.isfinite(), columns + first, -1)
    if count == width:
        candidates.limits[rows] = squares[:, -1].double()


def _least(tile: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least entries of each row, ascending, and their columns."""
    n_chunks = tile.shape[1] // CHUNK
    if n_chunks <= MIN_CHUNKS_PER_CANDIDATE * count:
        return tile.topk(count, dim=1, largest=False)
    # each of the least entries is in one of the chunks with the least minima, or after the last chunk
    chunks = tile[:, : n_chunks * CHUNK].unflatten(1, (n_chunks, CHUNK))
    chosen = chunks.amin(2).topk(count, dim=1, largest=False).indices[:, :, None]
    squares = chunks.gather(1, chosen.expand(-1, -1, CHUNK)).flatten(1)
    columns = (chosen * CHUNK + torch.arange(CHUNK, device=tile.device)).flatten(1)
    after = torch.arange(n_chunks * CHUNK, tile.shape[1], device=tile.device)
    squares = torch.cat([squares, tile[:, after]], 1)
    columns = torch.cat([columns, after.expand(len(tile), -1)], 1)
    squares, order = squares.topk(count, dim=1, largest=False)
    return squares, columns.gather(1, order)
