"""
Unfolding a rotating image
==========================

A photograph rotates once. Its 120 views are points in a space of 1,024 pixels and differ
only in the angle; maximum variance unfolding, which does not know the angle, arranges them
on a circle.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from scipy.ndimage import rotate, zoom
from sklearn.datasets import load_sample_image

from conemetric import MaximumVarianceUnfolding

photograph = load_sample_image("china.jpg")[60:380, 140:460].mean(axis=2)
small = zoom(photograph, 0.2)
inside = np.hypot(*np.mgrid[-1:1:64j, -1:1:64j]) < 1  # leave out the corners


def view(angle):
    turned = np.where(inside, rotate(small, angle, reshape=False, mode="nearest"), 255)
    return turned.reshape(32, 2, 32, 2).mean(axis=(1, 3))


images = np.array([view(angle) for angle in np.arange(0, 360, 3)])
X = images.reshape(len(images), -1)

# %%
# Each view keeps its distance to the four most similar ones; all others move apart.

model = MaximumVarianceUnfolding(n_neighbors=4, constraint="equal", tol=1e-2).fit(X)
share = model.eigenvalues_ / model.eigenvalues_.sum()
print(f"the plane of the circle holds {share[:2].sum():.1%} of the variance")

# %%

figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
place = model.embedding_[:, :2]
axes.scatter(*place.T, s=6, c="lightgrey")
for position, image in zip(place[::5], images[::5], strict=True):
    picture = OffsetImage(image, zoom=1.5, cmap="gray")
    axes.add_artist(AnnotationBbox(picture, position, frameon=False))
axes.margins(0.15)
axes.set_aspect("equal")
axes.set_axis_off()
plt.show()
