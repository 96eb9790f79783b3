"""
Compressive sensing of a moving blob
====================================

A Gaussian blob at any place of a 16 x 16 image is measured by M linear functionals and
found again by manifold iterative pursuit. The measurements are learned by NuMax on the
blobs centred at even pixels and tested on the others, against random ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from conemetric import numax_path
from conemetric.evaluation.compressive import (
    manifold_pursuit,
    measure,
    translating_images,
)

images, positions = translating_images("blob", side=16, size=2)
train = (positions % 2 == 0).all(1)
path = numax_path(images[train], deltas=[0.4, 0.2, 0.1, 0.05], tol=0.01)
ranks = [len(metric.components_) for metric in path]
print("distortion  ", *(f"{metric.delta:6.2f}" for metric in path))
print("measurements", *(f"{rank:6d}" for rank in ranks))

# %%
# Ten draws of the noise and of the random measurements; the error of an image is that
# of the one found in its place.

tested = images[~train]


def error(Psi, snr_db, draw):
    found = manifold_pursuit(measure(Psi, tested, snr_db, draw), Psi, images)
    return np.mean((found - tested) ** 2) / np.mean(tested**2)


figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axis, snr_db in zip(axes, (12, 3), strict=True):
    learned, random = [], []
    for rank, metric in zip(ranks, path, strict=True):
        Psi = metric.components_
        rng = np.random.default_rng(0)
        draws = [rng.normal(size=Psi.shape) / rank**0.5 for _ in range(10)]
        learned.append(np.mean([error(Psi, snr_db, draw) for draw in range(10)]))
        random.append(np.mean([error(Psi, snr_db, i) for i, Psi in enumerate(draws)]))
    for name, values in (("NuMax", learned), ("random", random)):
        print(f"{snr_db:2d} dB, {name:6s}", *(f"{value:6.1%}" for value in values))
        axis.semilogy(ranks, values, "o-", label=name)
    axis.set(xlabel="measurements M", title=f"{snr_db} dB")
axes[0].set_ylabel("relative squared error of recovery")
axes[0].legend()
plt.show()
