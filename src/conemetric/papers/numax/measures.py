"""How well a linear embedding preserves distances: isometry constant and distortions.

The distortion of a pair is ||E x_a - E x_b||^2 / ||x_a - x_b||^2 for the embedding E,
``components_`` of NuMax or of scikit-learn's PCA and GaussianRandomProjection; the
isometry constant is the largest deviation of a distortion from 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array

from ...constraints.in_memory import check_pairs
from ...core.arrays import Array, is_torch, like, to_numpy
from ...core.slices import slices
from .secants import AllSecants, ListedSecants, Secants

# Bounds on distortions so tight that a scan returns the extreme secants of every row.
TIGHT_DELTA = 1e-9
# Scaled to this largest singular value, an embedding has no distortion above a quarter.
SINGULAR_VALUE_BELOW = 0.5
# Scaled so that the largest distortion found has this square root, it has that one, and any that is
# larger still, far above 1.
ROOT_ABOVE = 2.0


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
    >>> from conemetric.papers.numax.measures import isometry_constant
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0]])
    >>> isometry_constant(PCA(2).fit(X), X).worst < 1e-9
    True
    """
    secants = _secants(embedding, X)
    L = like(embedding.components_, secants.X, secants.xp.float64).T
    tiny = np.finfo(float).tiny
    # A scan returns the shortest secants below 1 and the longest above 1: scale all of them below, then
    # the longest above.
    largest_singular = float(secants.xp.linalg.svdvals(L)[0])
    below = SINGULAR_VALUE_BELOW / max(largest_singular, tiny)
    values = _scanned(embedding, X, secants, below * L)
    above = ROOT_ABOVE / max(values.max(), tiny) ** 0.5
    largest = _scanned(embedding, X, secants, above * L).max(initial=values.max())
    return IsometryConstant(float(values.min()), float(largest))


def _scanned(embedding: Any, X: Any, secants: Secants, L: Array) -> np.ndarray:
    """Return the distortions of the pairs that a scan at L L' returns."""
    keys = secants.scan(L, TIGHT_DELTA, dtype=secants.xp.float64).keys
    a, b = secants.ends(keys)
    return distortions(embedding, X, np.stack([to_numpy(a), to_numpy(b)], 1))


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
    >>> from conemetric.papers.numax.measures import distortions
    >>> X = np.random.default_rng(0).normal(size=(20, 5))
    >>> values = distortions(PCA(3).fit(X), X)
    >>> len(values), bool(values.max() <= 1 + 1e-12)
    (190, True)
    """
    secants = _secants(embedding, X, pairs)
    if pairs is not None:
        n_pairs = len(pairs)
    keys = secants.sample(n_pairs, np.random.default_rng(random_state))
    L = like(embedding.components_, secants.X, secants.xp.float64).T
    parts = []
    for part in slices(len(keys), secants.n_features):
        operator = secants.operator(keys[part], secants.xp.float64)
        parts.append(to_numpy(operator.forward_factor(L)))
    return np.concatenate(parts)


def _secants(embedding: Any, X: Any, pairs: Any = None) -> Secants:
    """Return the secants between all rows of X, or of these pairs, checked."""
    if not is_torch(X):
        X = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="X")
    width = embedding.components_.shape[1]
    if X.shape[1] != width:
        raise ValueError(f"X has {X.shape[1]} features, but the embedding takes {width}.")
    secants: Secants
    if pairs is None:
        secants = AllSecants(X)
    else:
        secants = ListedSecants(X, check_pairs(pairs, len(X)))
    if secants.empty:
        raise ValueError(
            "X has no distance to preserve, since the points of every pair coincide; pass rows that "
            "differ."
        )
    return secants
