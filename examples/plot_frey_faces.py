"""
Unfolding faces and teapots
===========================

Image sequences embedded by maximum variance unfolding and drawn as thumbnails: the
1,965 Frey faces (5 neighbours) and a teapot that turns once around (6 neighbours). The
data are read from the folder named by ``CONEMETRIC_DATA``; without them there is
nothing to draw.
"""

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from conemetric import MaximumVarianceUnfolding

SETS = {
    "frey": (5, lambda X: X.reshape(-1, 28, 20)),
    "teapots100_rgb76x101": (6, lambda X: X.reshape(-1, 3, 101, 76).transpose(0, 3, 2, 1)),
}


def thumbnails(axes, embedding, images, apart=0.06):
    """Draw images at their places, leaving out those nearer than ``apart`` (of the
    width) to one already drawn.
    """
    place = (embedding - embedding.min(axis=0)) / np.ptp(embedding, axis=0).max()
    axes.scatter(*place.T, s=3, c="lightgrey")
    drawn = np.empty((0, 2))
    for position, image in zip(place, images, strict=True):
        if not len(drawn) or np.linalg.norm(drawn - position, axis=1).min() > apart:
            drawn = np.vstack([drawn, position])
            picture = OffsetImage(image, zoom=28 / image.shape[0], cmap="gray")
            axes.add_artist(AnnotationBbox(picture, position, frameon=False))
    axes.set_aspect("equal")
    axes.set_axis_off()


def main():
    folder = Path(os.environ.get("CONEMETRIC_DATA", "data"))
    for name, (n_neighbors, as_images) in SETS.items():
        if not (folder / f"{name}.npz").exists():
            print(
                f"{name}: no {folder / name}.npz; set CONEMETRIC_DATA to the folder that holds it."
            )
            continue
        X = np.load(folder / f"{name}.npz")["X"]
        began = time.perf_counter()
        model = MaximumVarianceUnfolding(n_neighbors, tol=1e-2).fit(X.astype(np.float64))
        certificate = model.certificate_
        print(
            f"{name}: {len(X)} images, {time.perf_counter() - began:.1f} s, gap "
            f"{certificate.relative_gap:.1e}, "
            f"violation {certificate.violation:.1e}, leading eigenvalues "
            f"{model.eigenvalues_[:4] / model.eigenvalues_.sum()}"
        )
        figure, axes = plt.subplots(figsize=(9, 9))
        thumbnails(axes, model.embedding_, as_images(X))
        figure.suptitle(f"{name}: {len(X)} images by maximum variance unfolding")


if __name__ == "__main__":
    main()
    plt.show()
