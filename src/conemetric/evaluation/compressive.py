"""Compressive sensing of signals on a manifold (NuMax, section 5.3): measure with few rows, recover by manifold pursuit.

A signal x of the manifold is measured as y = Psi x + noise. `manifold_pursuit` recovers it by projected gradient steps

    x <- nearest sample of the manifold to  x + Psi'(y - Psi x) / s

(manifold iterative pursuit, Shah & Chandrasekaran 2011, with a finite sample in place of the manifold), s the mean of
||Psi d||^2 / ||d||^2 over the manifold weighted by ||d||^2: 1 for a near-isometry, so that the step is that of the papers.
"""

import numpy as np


def translating_images(shape, side=16, size=6, *, step=1):
    """Images of one white shape in every position on a black square: the paper's synthetic manifolds.

    Parameters
    ----------
    shape : {"square", "disk", "blob"}
        ``size`` is the square's side, the disk's diameter, or the standard deviation of a Gaussian blob (whose centre then
        visits every pixel).
    side : int, default=16
    size : float, default=6
    step : int, default=1
        Pixels between neighbouring positions.

    Returns
    -------
    images : array (n, side * side)
    positions : integer array (n, 2)
        Row and column: of the upper left corner of the shape, or of the blob's centre.

    Examples
    --------
    >>> from conemetric.evaluation.compressive import translating_images
    >>> images, positions = translating_images("square", side=5, size=3)
    >>> images.shape, float(images[0].sum())
    ((9, 25), 9.0)
    """
    if shape not in ("square", "disk", "blob"):
        raise ValueError(f"shape={shape!r} is unknown; choose 'square', 'disk' or 'blob'.")
    last = side if shape == "blob" else side - int(size) + 1
    positions = np.array([(r, c) for r in range(0, last, step) for c in range(0, last, step)])
    rows, columns = np.mgrid[:side, :side].reshape(2, -1)
    dr, dc = rows - positions[:, :1], columns - positions[:, 1:]
    if shape == "blob":
        return np.exp(-(dr**2 + dc**2) / (2 * size**2)), positions
    if shape == "square":
        return ((dr >= 0) & (dr < size) & (dc >= 0) & (dc < size)).astype(float), positions
    centre = (size - 1) / 2
    return ((dr - centre) ** 2 + (dc - centre) ** 2 <= (size / 2) ** 2).astype(float), positions


def measure(embedding, X, snr_db=np.inf, random_state=0):
    """Noisy linear measurements of the rows of X.

    Parameters
    ----------
    embedding : array (M, D)
        ``components_`` of an embedding.
    X : array (n, D)
    snr_db : float, default=inf
        Signal to noise ratio in decibels: 10 log10 of the energy of a row's measurements over that of its noise.
    random_state : int

    Returns
    -------
    array (n, M)
    """
    Y = X @ embedding.T
    if np.isinf(snr_db):
        return Y
    noise = np.random.default_rng(random_state).normal(size=Y.shape)
    scale = np.linalg.norm(Y, axis=1) / np.linalg.norm(noise, axis=1) * 10 ** (-snr_db / 20)
    return Y + scale[:, None] * noise


def manifold_pursuit(measurements, embedding, samples, n_iter=50):
    """Recover signals of a manifold from linear measurements.

    Parameters
    ----------
    measurements : array (n, M)
    embedding : array (M, D)
    samples : array (m, D)
        Points of the manifold; answers are among them.
    n_iter : int, default=50

    Returns
    -------
    array (n, D)

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.evaluation.compressive import manifold_pursuit, measure, translating_images
    >>> images, _ = translating_images("blob", side=8, size=2)
    >>> Psi = np.linalg.svd(images - images.mean(0), full_matrices=False)[2][:12]
    >>> recovered = manifold_pursuit(measure(Psi, images), Psi, images)
    >>> bool(np.mean((recovered - images) ** 2) < 0.01 * np.mean(images**2))
    True
    """
    centred = samples - samples.mean(0)
    step = (centred**2).sum() / ((centred @ embedding.T) ** 2).sum()
    squares = (samples**2).sum(1)
    x = np.broadcast_to(samples.mean(0), (len(measurements), samples.shape[1]))
    nearest = None
    for _ in range(n_iter):
        x = x + step * (measurements - x @ embedding.T) @ embedding
        previous, nearest = nearest, (squares - 2 * x @ samples.T).argmin(1)
        if previous is not None and (nearest == previous).all():
            break
        x = samples[nearest]
    return samples[nearest]
