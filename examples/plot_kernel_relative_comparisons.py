"""
Relative comparisons through a kernel
=====================================

Four classes lie on concentric circles. No weighting of the two coordinates follows a
circle round, so `RelativeComparisons` on the features leaves the nearest-neighbour
error where it was. With a Gaussian kernel the metric weights one bump per training
point instead: a few of them suffice to bend the lines of equal distance along the
circles.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier

from conemetric import RelativeComparisons


def circles(n_points, rng):
    """Points on four noisy circles, and the circle of each."""
    y = rng.integers(0, 4, n_points)
    angle, radius = (
        rng.uniform(0, 2 * np.pi, n_points),
        0.2 + 0.6 * y + 0.12 * rng.normal(size=n_points),
    )
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


rng = np.random.default_rng(0)
X, y = circles(120, rng)
X_test, y_test = circles(1000, rng)

# %%
# Learn both metrics and compare their 3-NN errors.

metrics = {
    "feature weights": RelativeComparisons().fit(X, y),
    "kernel weights": RelativeComparisons(basis=partial(rbf_kernel, gamma=0.3)).fit(
        X, y
    ),
}
errors = {}
for name, metric in metrics.items():
    knn = KNeighborsClassifier(3).fit(metric.transform(X), y)
    errors[name] = 1 - knn.score(metric.transform(X_test), y_test)
    gap = metric.certificate_.relative_gap
    print(f"{name}: 3-NN error {errors[name]:.1%}, within {gap:.0e} of the optimum")

# %%
# Learned distance from one training point (the star) to the whole plane: ellipses
# for feature weights, crescents for the kernel.

side = np.linspace(-2.5, 2.5, 120)
plane = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
star = X[y == 2][:1]

figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
for axis, (name, metric) in zip(axes, metrics.items(), strict=True):
    distance = metric.pair_distance(
        np.stack([np.broadcast_to(star, plane.shape), plane], axis=1)
    )
    axis.contourf(side, side, distance.reshape(120, 120), levels=20, cmap="Greys")
    axis.scatter(*X.T, c=y, cmap="viridis", s=14)
    axis.scatter(*star.T, marker="*", s=220, c="red", edgecolors="white")
    if metric.kernel_points_ is not None:
        axis.scatter(
            *metric.kernel_points_.T,
            s=90,
            facecolors="none",
            edgecolors="red",
            label="weighted kernel centres",
        )
        axis.legend(loc="upper right")
    axis.set(title=f"{name}: 3-NN error {100 * errors[name]:.1f} %", aspect="equal")

plt.show()
