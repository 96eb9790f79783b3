"""
Disk or square, from a handful of measurements
==============================================

Shifted disks and shifted squares, with noise on every pixel, are classified from M linear
measurements by the nearest clean image after measurement. NuMax uses only secants
*between* the classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

from conemetric import numax_path
from conemetric.evaluation.knn import knn_error


def translated(shape, side):
    """The shape in every position on a black square image, one image per row."""
    size = len(shape)
    places = side - size + 1
    images = np.zeros((places, places, side, side))
    for row, column in np.ndindex(places, places):
        images[row, column, row : row + size, column : column + size] = shape
    return images.reshape(places**2, -1)


squares = translated(np.ones((5, 5)), side=12)
offsets = np.arange(6) - 2.5
disks = translated(offsets[:, None] ** 2 + offsets**2 <= 9, side=12)
X, y = np.vstack([squares, disks]), np.repeat([0, 1], [len(squares), len(disks)])
rng = np.random.default_rng(0)
between = np.stack(
    [rng.integers(0, len(squares), 500), rng.integers(len(squares), len(X), 500)], 1
)
noisy, y_noisy = np.tile(X, (5, 1)), np.tile(y, 5)
noisy = noisy + 0.3 * rng.normal(size=noisy.shape)


def error(components):
    return knn_error(
        None, X @ components.T, y, noisy @ components.T, y_noisy, n_neighbors=1
    )


path = numax_path(X, deltas=[0.8, 0.6, 0.4, 0.2, 0.1], pairs=between, tol=0.01)
ranks = [len(metric.components_) for metric in path]
errors = {
    "NuMax (inter-class)": [error(metric.components_) for metric in path],
    "PCA": [],
    "random projection": [],
}
for rank in ranks:
    errors["PCA"].append(error(PCA(rank, random_state=0).fit(X).components_))
    draws = [
        error(GaussianRandomProjection(rank, random_state=seed).fit(X).components_)
        for seed in range(10)
    ]
    errors["random projection"].append(np.mean(draws))

print("rows               ", *(f"{rank:6d}" for rank in ranks))
for name, values in errors.items():
    print(f"{name:20s}", *(f"{100 * value:5.1f}%" for value in values))
    plt.plot(ranks, values, "o-", label=name)
plt.xlabel("measurements M")
plt.ylabel("classification error")
plt.title("Disk against square")
plt.legend()
plt.show()
