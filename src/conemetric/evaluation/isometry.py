"""How well a linear embedding preserves distances: isometry constant and distortions.

The distortion of a pair is ||E x_a - E x_b||^2 / ||x_a - x_b||^2 for the embedding E,
``components_`` of NuMax or of scikit-learn's PCA and GaussianRandomProjection; the
isometry constant is the largest deviation of a distortion from 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ..constraints.in_memory import check_pairs
from ..core.arrays import is_torch, like, to_numpy
from ..core.slices import slices
from ..operators.secants import AllSecants, ListedSecants

SMALL_DELTA = 1e-9  # with bounds this tight a scan returns the extreme secants of every row


@dataclass(frozen=True)
class IsometryConstant:
    """The smallest and the largest distortion over all pairs."""

    smallest: float
    largest: float

    @property
    def worst(self) -> float:
        """The isometry constant: the larger deviation from 1."""
        return max(1 - self.smallest, self.largest - 1)


def isometry_constant(embedding: Any, X: Any) -> IsometryConstant:
    """Isometry constant over all pairs of distinct rows of X, by an exhaustive scan in
    float64.

    Parameters
    ----------
    embedding : fitted linear transformer with ``components_``
    X : array or tensor (n, D)

    Returns
    -------
    IsometryConstant

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from conemetric.evaluation.isometry import isometry_constant
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0]])
    >>> isometry_constant(PCA(2).fit(X), X).worst < 1e-9
    True
    """
    secants = _secants(embedding, X)
    L = like(embedding.components_, secants.X, secants.xp.float64).T
    # a scan returns the shortest secants below 1 and the longest above 1: scale all of
    # them below, then the longest above
    below = 0.5 / max(float(secants.xp.linalg.svdvals(L)[0]), np.finfo(float).tiny)
    values = _scanned(embedding, X, secants, below * L)
    above = 2 / max(values.max(), np.finfo(float).tiny) ** 0.5
    largest = _scanned(embedding, X, secants, above * L).max(initial=values.max())
    return IsometryConstant(float(values.min()), float(largest))


def _scanned(embedding, X, secants, L):
    """Distortions of the pairs that a scan at L L' returns."""
    keys = secants.scan(L, SMALL_DELTA, dtype=secants.xp.float64).keys
    return distortions(embedding, X, np.stack([to_numpy(end) for end in secants.ends(keys)], 1))


def distortions(
    embedding: Any, X: Any, pairs: Any = None, *, n_pairs: int = 100_000, random_state: int = 0
) -> np.ndarray:
    """Distortions of the given pairs, or of a random sample of all pairs, for quantiles
    and histograms.

    Parameters
    ----------
    embedding : fitted linear transformer with ``components_``
    X : array or tensor (n, D)
    pairs : integer array (m, 2), default=None
    n_pairs : int, default=100_000
        Size of the sample if no pairs are given (at most all pairs).
    random_state : int, default=0

    Returns
    -------
    array
        One value per pair of distinct points.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from conemetric.evaluation.isometry import distortions
    >>> X = np.random.default_rng(0).normal(size=(20, 5))
    >>> values = distortions(PCA(3).fit(X), X)
    >>> len(values), bool(values.max() <= 1 + 1e-12)
    (190, True)
    """
    secants = _secants(embedding, X, pairs)
    n_pairs = n_pairs if pairs is None else len(pairs)
    keys = secants.sample(n_pairs, np.random.default_rng(random_state))
    L = like(embedding.components_, secants.X, secants.xp.float64).T
    parts = [
        secants.operator(keys[part], secants.xp.float64).forward_factor(L)
        for part in slices(len(keys), secants.n_features)
    ]
    return np.concatenate([to_numpy(part) for part in parts])


def _secants(embedding, X, pairs=None):
    if not is_torch(X):
        X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="X")
    width = embedding.components_.shape[1]
    if X.shape[1] != width:
        raise ValueError(f"X has {X.shape[1]} features, but the embedding takes {width}.")
    secants = AllSecants(X) if pairs is None else ListedSecants(X, check_pairs(pairs, len(X)))
    if secants.empty:
        raise ValueError(
            "The points of every pair coincide, so there is no distance to preserve; give rows of "
            "X that differ."
        )
    return secants
