"""Local spread of an embedding and its direction.

References
----------
Zhang, Wang, He & Zhou, "Quantitative analysis of nonlinear embedding", IEEE TNN 22(12),
2011.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.validation import check_array, check_consistent_length


@dataclass(frozen=True)
class LocalSpread:
    """Smoothness and co-directional consistence of an embedding, averaged over its local patches.

    Attributes
    ----------
    alstd, aled : float
        Average local standard deviation, and average local extreme deviation (largest
        minus smallest), of the spread within a neighbourhood. In the units of the
        embedding; smaller is smoother.
    alcd : float
        Average local co-directional consistence, 0 to 1.
    gscd : float
        Global smoothness and co-directional consistence: the average of local standard
        deviation over local consistence; smaller is better.
    directions : array (n, n_components)
        First principal spread direction of every point.
    spread : array (n,)
        Standard deviation along it.
    """

    alstd: float
    aled: float
    alcd: float
    gscd: float
    directions: np.ndarray
    spread: np.ndarray


def local_spread(X, embedding, n_neighbors=6):
    """ALSTD, ALED, ALCD and GSCD of an embedding.

    The patch of point i is i with its ``n_neighbors`` nearest neighbours in X, as
    embedded. Its first principal component is the principal spread direction p_i, with
    standard deviation s_i. Over the patch of i, the local standard and extreme
    deviation are those of s_j, and the local consistence is the mean of abs(p_i' p_j)
    over the neighbours.

    Parameters
    ----------
    X : array-like (n, n_features)
        Pass the embedding itself to take neighbours there.
    embedding : array-like (n, n_components)
    n_neighbors : int, default=6

    Returns
    -------
    LocalSpread

    Examples
    --------
    >>> import numpy as np
    >>> line = np.arange(20.0)[:, None] * [3.0, 4.0]
    >>> result = local_spread(line, line, n_neighbors=4)
    >>> round(result.alcd, 6), result.directions[0].round(1).tolist()
    (1.0, [0.6, 0.8])
    """
    X, Y = (
        check_array(given, dtype=np.float64, ensure_min_samples=n_neighbors + 1, input_name=name)
        for name, given in (("X", X), ("embedding", embedding))
    )
    check_consistent_length(X, Y)
    neighbour = NearestNeighbors(n_neighbors=n_neighbors).fit(X).kneighbors(return_distance=False)
    patch = np.column_stack([np.arange(len(X)), neighbour])
    centred = Y[patch] - Y[patch].mean(axis=1, keepdims=True)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    p, s = axes[:, 0], singular[:, 0] / np.sqrt(n_neighbors + 1)
    p *= np.sign(p[np.arange(len(p)), np.argmax(abs(p), axis=1)])[:, None]
    deviation, extreme = s[patch].std(axis=1), np.ptp(s[patch], axis=1)
    consistence = abs(np.einsum("ic,ijc->ij", p, p[neighbour])).mean(axis=1)
    ratio = deviation / np.maximum(consistence, np.finfo(float).tiny)
    means = [float(value.mean()) for value in (deviation, extreme, consistence, ratio)]
    return LocalSpread(means[0], means[1], means[2], means[3], p, s)
