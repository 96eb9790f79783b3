"""How well an embedding preserves neighbourhoods (Lee & Verleysen).

With rho_ij the rank of j among the neighbours of i in the data and r_ij that in the
embedding (1 = nearest, n - 1 = farthest),

    Q_nx(K) = #{max(rho, r) <= K} / (K n)                                   share of K-neighbourhoods kept
    B_nx(K) = (#{rho < r <= K} - #{r < rho <= K}) / (K n)                   > 0 intrusive (crushed), < 0 extrusive (torn)
    R_nx(K) = ((n - 1) Q_nx(K) - K) / (n - 1 - K)                           Q_nx above chance
    AUC     = sum_K R_nx(K) / K  /  sum_K 1 / K                             small neighbourhoods count most

References
----------
Lee & Verleysen, "Quality assessment of nonlinear dimensionality reduction based on K-ary
neighborhoods", JMLR W&CP 4, 2008. Lee et al., "Type 1 and 2 mixtures of Kullback-Leibler divergences as
cost functions in dimensionality reduction", Neurocomputing 112, 2013 (R_nx and its area).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances
from sklearn.utils.validation import check_array, check_consistent_length

from ..core.slices import slices
from ..neighbours.ties import row_keys

ARRAYS_OF_RANKS = 4  # arrays of distances, orders or ranks that are held at a time


@dataclass(frozen=True)
class NeighbourhoodQuality:
    """Curves over K = 1 ... n - 2 and their summary; see the module docstring.

    Attributes
    ----------
    K : integer array (n - 2,)
    Q_nx, B_nx, R_nx : arrays (n - 2,)
    """

    K: np.ndarray
    Q_nx: np.ndarray
    B_nx: np.ndarray

    @property
    def R_nx(self) -> np.ndarray:
        """Q_nx relative to chance: 0 for a random embedding, 1 for a perfect one."""
        n_others = len(self.K) + 1
        return (n_others * self.Q_nx - self.K) / (n_others - self.K)

    @property
    def auc(self) -> float:
        """Area under R_nx over log K: 1 for an embedding that preserves every
        neighbourhood, about 0 for a random one.
        """
        return float((self.R_nx / self.K).sum() / (1 / self.K).sum())


def neighbourhood_quality(X: Any, embedding: Any) -> NeighbourhoodQuality:
    """How many neighbours of each point in X are still its neighbours in the embedding,
    for every neighbourhood size.

    Parameters
    ----------
    X : array-like (n, n_features)
    embedding : array-like (n, n_components)

    Returns
    -------
    NeighbourhoodQuality
        Points at equal distances are ordered by a hash of their values. Time grows as
        n^2 log n, memory as n.

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.manifold import neighbourhood_quality
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> quality = neighbourhood_quality(X, 2 * X + 1)
    >>> float(quality.Q_nx.min()), float(abs(quality.B_nx).max()), quality.auc
    (1.0, 0.0, 1.0)
    """
    X = check_array(X, dtype=np.float64, ensure_min_samples=4, input_name="X")
    Y = check_array(embedding, dtype=np.float64, ensure_min_samples=4, input_name="embedding")
    check_consistent_length(X, Y)
    # of points at equal distances the one with the lower key comes first
    order = np.argsort(row_keys(X) + row_keys(Y), kind="stable")
    X = X[order]
    Y = Y[order]
    n = len(X)
    # how many pairs (i, j) have max(rho_ij, r_ij) = 0 ... n - 1: of all, those with rho < r, with rho > r
    kept = np.zeros(n, dtype=np.int64)
    farther = np.zeros(n, dtype=np.int64)
    nearer = np.zeros(n, dtype=np.int64)
    r = np.arange(1, n)
    for part in slices(n, ARRAYS_OF_RANKS * n):
        rho = _ranks_in_data(X, Y, np.arange(n)[part])
        worse = np.maximum(rho, r)
        kept += np.bincount(worse.ravel(), minlength=n)
        farther += np.bincount(worse[rho < r], minlength=n)
        nearer += np.bincount(worse[rho > r], minlength=n)
    # K = n - 1 would be all others, kept by any embedding: R_nx divides by n - 1 - K
    K = np.arange(1, n - 1)
    Q = np.cumsum(kept)[1 : n - 1] / (K * n)
    B = np.cumsum(farther - nearer)[1 : n - 1] / (K * n)
    return NeighbourhoodQuality(K, Q, B)


def _ranks_in_data(X: np.ndarray, Y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the rank in X of every neighbour of some rows, in the order of their ranks in Y."""
    n = len(X)
    order_in_data = _neighbours(X, rows)
    ranks = np.empty((len(rows), n), dtype=np.int64)
    np.put_along_axis(
        ranks, order_in_data, np.broadcast_to(np.arange(1, n), order_in_data.shape), axis=1
    )
    return np.take_along_axis(ranks, _neighbours(Y, rows), axis=1)


def _neighbours(points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return all other points, nearest first, for each of ``rows``."""
    distances = pairwise_distances(points[rows], points)
    distances[np.arange(len(rows)), rows] = -1.0  # a point comes before its duplicates
    return np.argsort(distances, axis=1, kind="stable")[:, 1:]
