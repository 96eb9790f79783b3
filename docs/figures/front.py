"""Draws the picture of the front page: python docs/figures/front.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from conemetric import FrobMetric
from conemetric.evaluation.knn import knn_error

# visible on white and on black
GREY, COLOURS = "#808495", ListedColormap(["#e8853c", "#2f9e8f", "#4f83cc"])

rng = np.random.default_rng(0)
y = np.repeat(np.arange(3), 500)
angle = rng.uniform(0, 2 * np.pi, len(y))
radius = 1.0 + 1.5 * y + 0.15 * rng.normal(size=len(y))
circles = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
X = np.hstack([circles, 2 * rng.normal(size=(len(y), 8))])
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

metric = FrobMetric().fit(X_train, y_train)
panels = {  # both views are the two leading directions; both errors use all of them
    "Euclidean": (PCA(2).fit(X_train), knn_error(None, X_train, y_train, X_test, y_test)),
    "Learned": (metric, knn_error(metric, X_train, y_train, X_test, y_test)),
}
figure, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for axis, (title, (view, error)) in zip(axes, panels.items(), strict=True):
    axis.scatter(*view.transform(X_test)[:, :2].T, c=y_test, s=7, cmap=COLOURS)
    axis.set(xticks=[], yticks=[], aspect="equal")
    axis.set_title(f"{title} distance: 3-NN error {error:.1%}", color=GREY, fontsize=11)
    axis.set_frame_on(False)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110, transparent=True)
