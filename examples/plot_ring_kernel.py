"""
A class inside another: columns and kernel coordinates
======================================================

Breiman's *ringnorm*: in twenty dimensions one class lies around the other. No linear map
parts them, so a metric of the columns leaves their neighbours mixed. The same program in
the coordinates of a Gaussian kernel finds a direction along which they part, with the
same certificate. `AutoMetric(kernel="auto")` decides between the two by held-out rows.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from conemetric import FrobMetric


def ringnorm(n_points, rng):
    """A wide normal distribution about the origin, and a narrow one a little beside it."""
    y = rng.integers(0, 2, n_points)
    X = rng.normal(size=(n_points, 20))
    X[y == 0] *= 2
    X[y == 1] += 2 / 20**0.5
    return X, y


rng = np.random.default_rng(0)
X, y = ringnorm(300, rng)
X_test, y_test = ringnorm(1000, rng)

# %%
# 3-NN errors on 1,000 new points.

maps = {
    "Euclidean": PCA().fit(X),
    "columns": FrobMetric().fit(X, y),
    "Gaussian kernel": FrobMetric(kernel="gaussian").fit(X, y),
}
errors = {}
for name, learned in maps.items():
    knn = KNeighborsClassifier(3).fit(learned.transform(X), y)
    errors[name] = 1 - knn.score(learned.transform(X_test), y_test)
    print(f"{name}: 3-NN error {errors[name]:.1%}")

# %%
# The new points along the two directions that count most in each distance.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for axis, (name, learned) in zip(axes, maps.items(), strict=True):
    Z = learned.transform(X_test)[:, :2]
    axis.scatter(*Z.T, c=y_test, cmap="coolwarm", s=8)
    axis.set(title=f"{name}: {100 * errors[name]:.1f} % wrong", xticks=[], yticks=[])

plt.show()
