"""
Rank against distortion on translating squares
==============================================

Images of a white square in every position on a black background form a two-dimensional
manifold. NuMax finds linear maps of few rows that keep the distances between 1,000
random pairs of them within a factor 1 ± delta. PCA needs several times as many rows for the
same worst-case distortion, because it minimises only the average.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from conemetric import numax_path
from conemetric.papers.numax.measures import distortions


def rows_needed(images, pairs, delta):
    """Fewest principal components of the secants with all distortions within delta."""
    secants = images[pairs[:, 0]] - images[pairs[:, 1]]
    secants /= np.linalg.norm(secants, axis=1, keepdims=True)
    basis = np.linalg.svd(secants, full_matrices=False)[2]
    kept = np.cumsum((secants @ basis.T) ** 2, axis=1)
    return 1 + int(np.argmax(abs(kept - 1).max(0) <= delta))


images = np.zeros((11, 11, 16, 16))
for row, column in np.ndindex(11, 11):
    images[row, column, row : row + 6, column : column + 6] = 1.0
images = images.reshape(11 * 11, 16 * 16)
rng = np.random.default_rng(0)
pairs = rng.integers(0, len(images), (1000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]

deltas = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]
path = numax_path(images, deltas=deltas, pairs=pairs)
ranks = [len(metric.components_) for metric in path]
principal = [rows_needed(images, pairs, delta) for delta in deltas]
print("delta     ", *(f"{delta:6.2f}" for delta in deltas))
print("NuMax rank", *(f"{rank:6d}" for rank in ranks))
print("PCA rank  ", *(f"{rank:6d}" for rank in principal))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot(ranks, deltas, "o-", label="NuMax")
left.plot(principal, deltas, "s-", label="PCA of the secants")
left.set(
    xlabel="rows of the embedding",
    ylabel="isometry constant delta",
    title="Translating squares, 16 x 16",
)
left.legend()

kept = distortions(path[-1], images, pairs)
rank = ranks[-1]
right.hist(kept, bins=50, alpha=0.7, label=f"NuMax, delta = {deltas[-1]}")
right.hist(
    distortions(PCA(rank).fit(images), images, pairs), bins=50, alpha=0.7, label="PCA"
)
right.set(xlabel="squared length kept", title=f"Secants after {rank} rows")
right.legend()
figure.tight_layout()
plt.show()
