"""
Disk or square, from a handful of measurements
==============================================

Shifted disks and shifted squares are told apart from M linear measurements by their nearest training image. Embeddings made for
the secants *between* the classes need fewer measurements than PCA or random projections of the same number of rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from conemetric import delta_path
from conemetric.evaluation.compressive import measure, translating_images
from conemetric.evaluation.isometry import baselines

squares, _ = translating_images("square", side=16, size=6)
disks, _ = translating_images("disk", side=16, size=7)
X = np.vstack([squares, disks])
y = np.repeat([0, 1], [len(squares), len(disks)])
rng = np.random.default_rng(0)
between = np.stack([rng.integers(0, len(squares), 2000), rng.integers(len(squares), len(X), 2000)], 1)


def error(components, snr_db=10, repeats=5):
    """Share of noisy measurements whose nearest training image, after measurement, is of the other class."""
    Z, wrong = X @ components.T, []
    for seed in range(repeats):
        noisy = measure(components, X, snr_db, random_state=seed)
        nearest = ((Z**2).sum(1) - 2 * noisy @ Z.T).argmin(1)
        wrong.append(np.mean(y[nearest] != y))
    return np.mean(wrong)


path = delta_path(X, [0.9, 0.8, 0.6, 0.4], pairs=between, tol=0.01)
errors = {"NuMax (inter-class)": [error(components) for components in path.components], "PCA": [], "random projection": []}
for rank in path.ranks:
    for name, embedding in baselines(X, int(rank)).items():
        errors[name].append(error(embedding.components_))

print("rows             ", *(f"{rank:6d}" for rank in path.ranks))
for name, values in errors.items():
    print(f"{name:18s}", *(f"{100 * value:5.1f}%" for value in values))
    plt.plot(path.ranks, values, "o-", label=name)
plt.xlabel("measurements M")
plt.ylabel("classification error at 10 dB")
plt.title("Disk against square")
plt.legend()
plt.show()
