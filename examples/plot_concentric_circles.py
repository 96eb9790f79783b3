"""
Concentric circles: PCA, LDA and BoostMetric
============================================

Four classes lie on concentric circles in two of ten dimensions; the other eight are
noise. PCA follows the noise, LDA sees class means that coincide, and BoostMetric finds
the plane: its two leading eigenvalues carry nearly all of the trace (Figure 1 of Shen
et al., 2012).
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

from conemetric import BoostMetric

# %%
# The data: 250 points on each circle, and noise as wide as the largest of them.

rng = np.random.default_rng(0)
y = np.repeat(np.arange(4), 250)
angle = rng.uniform(0, 2 * np.pi, len(y))
radius = 1.0 + y + 0.1 * rng.normal(size=len(y))
X = np.hstack(
    [
        radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]),
        4 * rng.normal(size=(len(y), 8)),
    ]
)

# %%
# 9,000 triplets (three targets and three impostors for each of the 1,000 points),
# exponential loss, stage-wise. With so small a v the number of iterations is the
# regulariser, so stopping short of the optimum is intended.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)
    metric = BoostMetric(
        1e-7, loss="exponential", solver="stagewise", max_iter=100
    ).fit(X, y)
eigenvalues = (metric.components_**2).sum(axis=1)
print(
    f"{len(metric.triplets_)} triplets; eigenvalues over their sum:",
    np.round(eigenvalues / eigenvalues.sum(), 3),
)
print(f"share of the two largest: {eigenvalues[:2].sum() / eigenvalues.sum():.1%}")

# %%

panels = {
    "PCA": PCA(2).fit_transform(X),
    "LDA": LinearDiscriminantAnalysis(n_components=2).fit_transform(X, y),
    "BoostMetric": metric.transform(X)[:, :2],
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for axis, (title, Z) in zip(axes, panels.items(), strict=True):
    axis.scatter(*Z.T, c=y, s=6, cmap="viridis")
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")
plt.show()
