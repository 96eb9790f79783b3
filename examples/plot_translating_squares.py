"""
Rank against distortion on translating squares
==============================================

Images of a white square in every position on a black background form a two-dimensional
manifold. NuMax finds linear maps of few rows that keep the distances between 1,000
random pairs of them to within a factor 1 -+ delta. PCA needs several times as many rows
for the same worst-case distortion, since it cares for the average only.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from conemetric import delta_path
from conemetric.evaluation.compressive import translating_images
from conemetric.evaluation.isometry import distortions


def rows_needed(images, pairs, delta):
    """Fewest principal components of the secants with all distortions within delta."""
    secants = images[pairs[:, 0]] - images[pairs[:, 1]]
    secants /= np.linalg.norm(secants, axis=1, keepdims=True)
    basis = np.linalg.svd(secants, full_matrices=False)[2]
    kept = np.cumsum((secants @ basis.T) ** 2, axis=1)
    return 1 + int(np.argmax(abs(kept - 1).max(0) <= delta))


images, _ = translating_images("square", side=16, size=6)
rng = np.random.default_rng(0)
pairs = rng.integers(0, len(images), (1000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]

deltas = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05]
path = delta_path(images, deltas, pairs=pairs)
principal = [rows_needed(images, pairs, delta) for delta in path.deltas]
print("delta     ", *(f"{delta:6.2f}" for delta in path.deltas))
print("NuMax rank", *(f"{rank:6d}" for rank in path.ranks))
print("PCA rank  ", *(f"{rank:6d}" for rank in principal))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot(path.ranks, path.deltas, "o-", label="NuMax")
left.plot(principal, path.deltas, "s-", label="PCA of the secants")
left.set(
    xlabel="rows of the embedding",
    ylabel="isometry constant delta",
    title="Translating squares, 16 x 16",
)
left.legend()

differences = images[pairs[:, 0]] - images[pairs[:, 1]]
kept = ((differences @ path.components[-1].T) ** 2).sum(1) / (differences**2).sum(1)
rank = int(path.ranks[-1])
right.hist(kept, bins=50, alpha=0.7, label=f"NuMax, delta = {path.deltas[-1]}")
right.hist(
    distortions(PCA(rank).fit(images), images, pairs), bins=50, alpha=0.7, label="PCA"
)
right.set(xlabel="squared length kept", title=f"Secants after {rank} rows")
right.legend()
figure.tight_layout()
plt.show()
