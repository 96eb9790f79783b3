"""The exact neighbour search, on the host and on a device."""

import numpy as np

from ..arrays import is_torch, like, namespace, to_numpy
from ..compiled import threaded
from . import kernels

BLOCK = 1 << 25  # distances held at a time during the neighbour search
SPARE = 8  # candidates kept beyond k, re-ranked with exact distances
FEWEST_IMPOSTORS, MOST_IMPOSTORS = 3, 10  # of n_impostors="auto"


def neighbours_by_label(X, y, n_targets, n_impostors):
    """Nearest same-label and other-label points of every point, exactly, ties to the lower index.

    Parameters
    ----------
    X : array (n, D), float32 or float64, NumPy or PyTorch
    y : integer array (n,)
        Labels, as `check_labels` encodes them.
    n_targets, n_impostors : int
        How many neighbours to find with the same and with another label.
        ``n_impostors="auto"`` finds as many as two points in three have nearer than
        their farthest target, but at least 3 and at most 10: where classes overlap so
        much, three impostors are a small and noisy part of those to be pushed away.

    Returns
    -------
    targets : integer array (n, n_targets)
    impostors : integer array (n, n_impostors)
        In the library of X; padded with -1 where a point has too few.

    Notes
    -----
    Candidates come from blocked matrix products in float32, `SPARE` more than asked
    for, and are re-ranked by float64 differences. A row whose candidates might miss a
    neighbour through rounding (many ties, say) is searched again by differences alone,
    so the result is exact. Distances that differ by no more than the rounding of X
    itself are ties, so that a change of units does not reorder them. Memory: one block
    of distances, however many points there are.
    """
    if n_impostors == "auto":
        return _enough_impostors(X, y, n_targets)
    if min(n_targets, n_impostors) < 1:
        raise ValueError(
            f"n_targets={n_targets} and n_impostors={n_impostors} must both be at least 1."
        )
    xp, n = namespace(X), X.shape[0]
    y = like(y, X, xp.int64)
    Z = X - X.mean(0)
    scale = float(abs(Z).max()) or 1.0
    Z = like(Z / scale, X, xp.float32)
    squares = (Z * Z).sum(1)[:, None]
    # |z_i|^2 + |z_j|^2 - 2 z_i'z_j in one product, so that no pass over the block but
    # the search remains
    left = xp.concat([Z, squares, xp.ones_like(squares)], 1)
    right = xp.concat([-2 * Z, xp.ones_like(squares), squares], 1)
    # a squared distance in product form, a sum of D rounded products, is wrong by less than this
    rounding = 4 * float(xp.finfo(Z.dtype).eps) * (8 + X.shape[1]) * float(squares.max())
    tolerances = (scale, rounding, _rounding(X))
    found = tuple(
        xp.full((n, k), -1, dtype=xp.int64, device=X.device) for k in (n_targets, n_impostors)
    )
    search = _search_torch if is_torch(X) else _search_numpy
    step = max(1, BLOCK // n)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        search(left[rows] @ right.T, rows, X, y, tolerances, [out[rows] for out in found])
    return found


def _enough_impostors(X, y, n_targets):
    """`neighbours_by_label` with as many impostors as two points in three have nearer
    than their farthest target.
    """
    for most in (FEWEST_IMPOSTORS, MOST_IMPOSTORS):
        targets, impostors = neighbours_by_label(X, y, n_targets, most)
        farthest = _distances(X, targets, -np.inf).max(1)
        nearer = (_distances(X, impostors, np.inf) < farthest[:, None] - _rounding(X)).sum(1)
        enough = int(np.quantile(nearer[farthest >= 0], 2 / 3, method="higher"))
        if enough < most:
            break
    return targets, impostors[:, : max(FEWEST_IMPOSTORS, enough)]


def _distances(X, neighbours, missing):
    """From each point to its neighbours, on the host, without an (n, k, D) array."""
    columns = [to_numpy(((X - X[column]) ** 2).sum(1)) ** 0.5 for column in neighbours.T]
    return np.where(to_numpy(neighbours) >= 0, np.stack(columns, 1), missing)


def _rounding(X):
    """Distances that differ by no more than this, the rounding of X itself, are ties."""
    return 4 * float(namespace(X).finfo(X.dtype).eps) * X.shape[1] ** 0.5 * float(abs(X).max())


def _search_numpy(distances, rows, X, y, tolerances, found):
    for same, out in zip((True, False), found, strict=True):
        args = (distances, rows.start, X, y, same, *tolerances, SPARE, out)
        threaded(kernels.nearest_by_label, len(distances), distances.size, *args)


def _search_torch(distances, rows, X, y, tolerances, found):
    import torch

    scale, rounding, tie = tolerances
    point = torch.arange(rows.start, rows.stop, device=X.device)
    distances[torch.arange(len(point)), point] = torch.inf
    same_label = y[point, None] == y
    for hidden, out in zip((~same_label, same_label), found, strict=True):
        k = out.shape[1]
        masked = distances.masked_fill(hidden, torch.inf)
        near, index = masked.topk(min(k + SPARE, len(y)), dim=1, largest=False)
        exact = (X[point, None].double() - X[index].double()).square().sum(2).sqrt()
        exact[~near.isfinite()] = torch.inf
        exact, index = _by_distance_then_index(exact, index, tie)
        out[:, : index.shape[1]] = index[:, :k]
        unsafe = near[:, -1].isfinite() & ~(
            ((exact[:, k - 1] + tie) / scale).square() < near[:, -1] - rounding
        )
        for r in unsafe.nonzero().ravel().tolist():
            exact = (X[point[r]].double() - X.double()).square().sum(1).sqrt()
            exact[hidden[r]] = torch.inf
            exact[point[r]] = torch.inf
            out[r] = _by_distance_then_index(
                exact[None], torch.arange(len(y), device=X.device)[None], tie
            )[1][0, :k]


def _by_distance_then_index(distances, index, tie):
    """Sort rows by distance, those within ``tie`` of each other by index; infinite
    distances get index -1.
    """
    import torch

    distances, order = distances.sort(dim=1)
    index = index.gather(1, order)
    steps = torch.where(
        distances[:, 1:].isfinite(), distances[:, 1:] - distances[:, :-1], torch.inf
    )
    group = torch.nn.functional.pad((steps > tie).cumsum(1), (1, 0))
    key = group * (int(index.max()) + 1) + index
    index = index.gather(1, key.argsort(dim=1))
    return distances, torch.where(distances.isfinite(), index, -1)
