"""NuMax as a measuring device: neighbours kept, recovery from few noisy measurements, and telling shapes apart."""

from dataclasses import dataclass

import numpy as np

from ..datasets import load
from ..evaluation.compressive import manifold_pursuit, measure, translating_images
from ..evaluation.knn import knn_error
from ..evaluation.retrieval import neighbour_recall
from .definition import Experiment, Method, ours
from .timing import timed

LINEAR = {
    "NuMax": ours("NuMax"),
    "PCA": Method("sklearn.decomposition:PCA"),
    "random projection": Method("sklearn.random_projection:GaussianRandomProjection", {"random_state": 0}),
}


@dataclass(frozen=True)
class NeighboursLost(Experiment):
    """Share of k nearest neighbours lost at 32 dimensions, 800 points searched; a column is ``set:k``."""

    def measure(self, column, method, run):
        name, _, k = column.partition(":")
        X = load(name).X
        X = X[np.random.default_rng(run).permutation(len(X))[:1000]]
        embedding = self.methods[method].make().set_params(n_components=32)
        seconds = timed(lambda: embedding.fit(X[200:]))
        return {"value": 100 * (1 - neighbour_recall(embedding, X[200:], X[:200], int(k))), "seconds": seconds}


NUMAX_FIGURE9 = NeighboursLost(
    name="numax-figure9",
    title="Nearest neighbours lost at 32 dimensions",
    paper="Hegde et al. 2015, figure 9 (there on LabelMe, which has no public loader)",
    quantity="neighbours lost, %",
    columns=tuple(f"usps11000:{k}" for k in (1, 5, 10, 20, 50)),
    methods=LINEAR,
)


@dataclass(frozen=True)
class Recovery(Experiment):
    """Relative error of images recovered by manifold pursuit from M noisy measurements; a column is ``blob:M at SNR dB``."""

    def measure(self, column, method, run):
        M, _, snr = column.partition(":")[2].partition(" at ")
        train, every = (translating_images("blob", side=32, size=6, step=step)[0] for step in (2, 1))
        embedding = self.methods[method].make().set_params(n_components=int(M))
        seconds = timed(lambda: embedding.fit(train))
        measured = measure(embedding.components_, every, float(snr.removesuffix(" dB")), run)
        found = manifold_pursuit(measured, embedding.components_, every)
        error = np.linalg.norm(found - every, axis=1) / np.linalg.norm(every, axis=1)
        return {"value": float(100 * error.mean()), "seconds": seconds}


NUMAX_FIGURE11 = Recovery(
    name="numax-figure11",
    title="Recovery of a translating blob, learned on every second position",
    paper="Hegde et al. 2015, figure 11",
    quantity="relative recovery error, %",
    columns=tuple(f"blob:{M} at {snr} dB" for M in (5, 10) for snr in (20, 6)),
    methods={name: LINEAR[name] for name in ("NuMax", "random projection")},
)


@dataclass(frozen=True)
class Shapes(Experiment):
    """Disk or square: noisy images, M measurements each, by the nearest clean image; a column is ``disk or square:M``."""

    def measure(self, column, method, run):
        X = np.vstack([translating_images(shape)[0] for shape in ("disk", "square")])
        y = np.repeat([0, 1], len(X) // 2)
        embedding = self.methods[method].make().set_params(n_components=int(column.partition(":")[2]))
        seconds = timed(lambda: embedding.fit(X, y))
        noisy = X + 0.2 * np.random.default_rng(run).normal(size=X.shape)
        return {"value": 100 * knn_error(embedding, X, y, noisy, y, 1), "seconds": seconds}


NUMAX_FIGURE12 = Shapes(
    name="numax-figure12",
    title="Disk or square from few measurements",
    paper="Hegde et al. 2015, figure 12",
    quantity="1-NN error, %",
    columns=tuple(f"disk or square:{M}" for M in (5, 10, 20)),
    methods={**LINEAR, "NuMax-Class": ours("NuMax", class_aware=True)},
    runs=2,
)

TABLES = (NUMAX_FIGURE9, NUMAX_FIGURE11, NUMAX_FIGURE12)
