"""
Disk or square, from a handful of measurements
==============================================

Shifted disks and shifted squares, with noise on every pixel, are told apart from M
linear measurements by the nearest clean image after measurement. NuMax is given secants
*between* the classes only.
"""

import matplotlib.pyplot as plt
import numpy as np
from conemetric.evaluation.compressive import translating_images

from conemetric import numax_path
from conemetric.evaluation.isometry import baselines
from conemetric.evaluation.knn import knn_error

squares, _ = translating_images("square", side=12, size=5)
disks, _ = translating_images("disk", side=12, size=6)
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
    errors["PCA"].append(error(baselines(X, rank)["PCA"].components_))
    draws = [
        error(baselines(X, rank, seed)["random projection"].components_)
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
