"""
Compressive sensing of a moving blob
====================================

A Gaussian blob at any place of a 16 x 16 image is measured by a few linear functionals
and found again by manifold iterative pursuit. The measurements are learned by NuMax on
the blobs centred at even pixels and tested on the others, against random ones.
"""

import matplotlib.pyplot as plt
import numpy as np

from conemetric import delta_path
from conemetric.evaluation.compressive import manifold_pursuit, measure, translating_images

images, positions = translating_images("blob", side=16, size=3)
train = (positions % 2 == 0).all(1)
print(f"{train.sum()} training images, {(~train).sum()} test images")

path = delta_path(images[train], [0.6, 0.4, 0.2], tol=0.01)
rng = np.random.default_rng(0)
test = rng.choice(np.flatnonzero(~train), 100, replace=False)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for axis, snr_db in zip(axes, (20, 6), strict=True):
    errors = {"NuMax": [], "random": []}
    for rank, components in zip(path.ranks, path.components, strict=True):
        random = rng.normal(size=(rank, images.shape[1])) / rank**0.5
        for name, Psi in (("NuMax", components), ("random", random)):
            found = manifold_pursuit(measure(Psi, images[test], snr_db), Psi, images)
            errors[name].append(np.mean((found - images[test]) ** 2) / np.mean(images[test] ** 2))
    for name, values in errors.items():
        print(
            f"SNR {snr_db:2d} dB {name:7s}",
            *(f"M={rank}: {value:.4f}" for rank, value in zip(path.ranks, values, strict=True)),
        )
        axis.semilogy(path.ranks, np.maximum(values, 1e-6), "o-", label=name)
    axis.set(xlabel="measurements M", title=f"{snr_db} dB")
axes[0].set_ylabel("relative squared error of recovery")
axes[0].legend()
figure.tight_layout()
plt.show()
