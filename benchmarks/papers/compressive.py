"""Compressive sensing of signals on a manifold (NuMax, section 5.3): measure with few
rows, recover by manifold pursuit.

A signal x of the manifold is measured as y = Psi x + noise. `manifold_pursuit` recovers
it by projected gradient steps

    x <- nearest sample of the manifold to  x + t Psi'(y - Psi x)

(manifold iterative pursuit, Shah & Chandrasekaran 2011, with a finite sample in place
of the manifold). Let every secant of the manifold be stretched in square by a to b.
Then t = 1/b lowers the misfit f = ||y - Psi x||^2, without noise by the factor b/a - 1
at least, so that a signal is found where b < 2a (delta < 1/3); elsewhere a step of one
length may lead nowhere while a longer one would not. Here a step has the length, of
many, that lowers f most.

`best_match` is what pursuit looks for: the sample of the smallest misfit, by trying all
of them.
"""

import numpy as np
from sklearn.utils import check_array

# lengths tried, in units of that which a perfect isometry of the manifold's scale would
# have
STEPS = 2.0 ** np.arange(-4, 9)


def translating_images(shape, side=16, size=6, *, step=1):
    """Images of one white shape in every position on a black square: the paper's
    synthetic manifolds.

    Parameters
    ----------
    shape : {"square", "disk", "blob"}
        ``size`` is the square's side, the disk's diameter, or the standard deviation of
        a Gaussian blob (whose centre then visits every pixel).
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


def measure(components, X, snr_db=np.inf, random_state=0):
    """Noisy linear measurements of the rows of X.

    Parameters
    ----------
    components : array (M, D)
        ``components_`` of an embedding.
    X : array (n, D)
    snr_db : float, default=inf
        Signal to noise ratio in decibels: 10 log10 of the energy of a row's
        measurements over that of its noise.
    random_state : int

    Returns
    -------
    array (n, M)
    """
    Y = X @ components.T
    if np.isinf(snr_db):
        return Y
    noise = np.random.default_rng(random_state).normal(size=Y.shape)
    scale = np.linalg.norm(Y, axis=1) / np.linalg.norm(noise, axis=1) * 10 ** (-snr_db / 20)
    return Y + scale[:, None] * noise


def manifold_pursuit(measurements, components, samples, n_iter=50):
    """Recover signals of a manifold from linear measurements.

    It ends where no step lowers the misfit: at the best match if the embedding is
    nearly isometric, else perhaps elsewhere.

    Parameters
    ----------
    measurements : array (n, M)
    components : array (M, D)
    samples : array (m, D)
        Points of the manifold; answers are among them.
    n_iter : int, default=50

    Returns
    -------
    array (n, D)

    Examples
    --------
    >>> import numpy as np
    >>> images, _ = translating_images("blob", side=8, size=2)
    >>> Psi = np.linalg.svd(images - images.mean(0), full_matrices=False)[2][:12]
    >>> recovered = manifold_pursuit(measure(Psi, images), Psi, images)
    >>> bool(np.mean((recovered - images) ** 2) < 0.01 * np.mean(images**2))
    True
    """
    measurements, components, samples = _checked(measurements, components, samples)
    measured, squares, centred = (
        samples @ components.T,
        (samples**2).sum(1),
        samples - samples.mean(0),
    )
    lengths = STEPS * (centred**2).sum() / ((centred @ components.T) ** 2).sum()
    found, misfit = np.zeros(len(measurements), np.int64), np.full(len(measurements), np.inf)
    x = np.broadcast_to(samples.mean(0), (len(measurements), samples.shape[1]))
    moving = np.arange(len(measurements))
    for _ in range(n_iter):
        here, slope = x @ samples.T, (measurements[moving] - x @ components.T) @ measured.T
        trials = np.stack([(squares - 2 * (here + length * slope)).argmin(1) for length in lengths])
        misfits = ((measurements[moving] - measured[trials]) ** 2).sum(2)
        best = misfits.argmin(0), np.arange(len(moving))
        lower = misfits[best] < misfit[moving]
        moving = moving[lower]
        if len(moving) == 0:
            break
        found[moving], misfit[moving] = trials[best][lower], misfits[best][lower]
        x = samples[found[moving]]
    return samples[found]


def best_match(measurements, components, samples):
    """The samples whose measurements are nearest: the most likely signals, were the
    noise of the measurements white.

    Parameters and result as for `manifold_pursuit`.

    Examples
    --------
    >>> import numpy as np
    >>> best_match(np.array([[0.9]]), np.array([[1.0, 0.0]]), np.array([[1.0, 3.0], [0.0, 2.0]]))
    array([[1., 3.]])
    """
    measurements, components, samples = _checked(measurements, components, samples)
    measured = samples @ components.T
    return samples[((measured**2).sum(1) - 2 * measurements @ measured.T).argmin(1)]


def _checked(measurements, components, samples):
    """The three as arrays of finite numbers whose shapes belong together."""
    given = {"measurements": measurements, "components": components, "samples": samples}
    measurements, components, samples = (
        check_array(array, dtype=[np.float64, np.float32], input_name=name)
        for name, array in given.items()
    )
    if measurements.shape[1] != components.shape[0]:
        raise ValueError(
            f"measurements has {measurements.shape[1]} columns for the {components.shape[0]} rows "
            "of components; give one for each."
        )
    if samples.shape[1] != components.shape[1]:
        raise ValueError(
            f"samples has {samples.shape[1]} columns for the {components.shape[1]} of components; "
            "give as many."
        )
    return measurements, components, samples
