"""NuMax as a measuring device: neighbours kept, recovery from few noisy measurements,
and telling shapes apart.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from conemetric.evaluation.knn import knn_error, neighbour_recall

from ..data import load
from .compressive import best_match, manifold_pursuit, measure, translating_images
from .experiment import Competitor, Experiment, ours, timed

LINEAR = {
    "NuMax": ours("NuMax"),
    "PCA": Competitor("sklearn.decomposition:PCA"),
    "random projection": Competitor("sklearn.random_projection:GaussianRandomProjection"),
}
# standard deviation of the noise in figure 12, where shapes are 1 on 0; the paper gives
# none
NOISE = 0.2
FROM_CLASSES = {
    "NuMax, every secant": ours("NuMax"),
    "NuMax-Class": ours("NuMax", class_aware=True),
}


@lru_cache(maxsize=64)
def learned(training, method, M, seed):
    """An embedding into M dimensions and the seconds of its fit, which a process does
    once however many cells use it.

    ``training(method, seed)`` gives the arguments of the fit.
    """
    embedding = {**LINEAR, **FROM_CLASSES}[method].make().set_params(n_components=M)
    if method == "random projection":
        embedding.set_params(random_state=seed)
    return embedding, timed(lambda: embedding.fit(**training(method, seed)))


def record(value, embedding, seconds):
    """A cell: the value, the seconds of the fit and, of NuMax, the distortion its rank
    was reached at.
    """
    return {"value": float(value), "seconds": seconds} | (
        {"delta": embedding.delta_} if hasattr(embedding, "delta_") else {}
    )


def _usps(seed):
    """4,000 points searched and 1,000 queries."""
    X = load("usps11000").X
    X = X[np.random.default_rng(seed).permutation(len(X))[:5000]]
    return X[1000:], X[:1000]


def _searched(method, seed):
    return {"X": _usps(seed)[0]}


@dataclass(frozen=True)
class NeighboursLost(Experiment):
    """Share of k nearest neighbours lost, 4,000 points searched for 1,000 queries; a
    column is ``set:M dimensions, k = K``.
    """

    def measure(self, column, method, run):
        M, _, k = column.partition(":")[2].partition(" dimensions, k = ")
        embedding, seconds = learned(_searched, method, int(M), run)
        X, queries = _usps(run)
        lost = 1 - neighbour_recall(embedding, X, queries, int(k))
        return record(100 * lost, embedding, seconds)


NUMAX_FIGURE9 = NeighboursLost(
    name="numax-figure9",
    title="Nearest neighbours lost",
    paper="Hegde et al. 2015, figure 9 (there on LabelMe, which has no public loader)",
    quantity="neighbours lost, %",
    columns=tuple(f"usps11000:{M} dimensions, k = {k}" for M in (48,) for k in (1, 5, 10, 20, 50)),
    methods=LINEAR,
)


def _blobs():
    """Every position, and those learned from: even rows and columns."""
    images, positions = translating_images("blob", side=32, size=6)
    return images, (positions % 2 == 0).all(1)


def _even_blobs(method, seed):
    images, even = _blobs()
    return {"X": images[even]}


@dataclass(frozen=True)
class Recovery(Experiment):
    """Relative error of unseen images recovered from M noisy measurements; a column is
    ``blob:M at SNR dB``.

    Recovery is by manifold pursuit, as in the paper, or, where the method says so, by
    the best match among all images.
    """

    def measure(self, column, method, run):
        M, _, snr = column.partition(":")[2].partition(" at ")
        method, _, recovery = method.partition(", ")
        embedding, seconds = learned(
            _even_blobs, method, int(M), run if method == "random projection" else 0
        )
        images, even = _blobs()
        unseen, Psi = images[~even], embedding.components_
        recover = best_match if recovery == "best match" else manifold_pursuit
        found = recover(measure(Psi, unseen, float(snr.removesuffix(" dB")), run), Psi, images)
        error = np.linalg.norm(found - unseen, axis=1) / np.linalg.norm(unseen, axis=1)
        return record(100 * error.mean(), embedding, seconds)


NUMAX_FIGURE11 = Recovery(
    name="numax-figure11",
    duration="hours",
    title="Recovery of a translating blob, learned at even positions, at the others",
    paper="Hegde et al. 2015, figure 11",
    quantity="relative recovery error, %",
    columns=tuple(f"blob:{M} at {snr} dB" for M in (5, 7, 10) for snr in (20, 6)),
    methods={
        name + recovery: method
        for recovery in ("", ", best match")
        for name, method in LINEAR.items()
    },
    runs=10,
)


@lru_cache(maxsize=1)
def _shapes():
    """Disks and squares in every place, their labels, and all pairs of a disk and a square."""
    X = np.vstack([translating_images(shape)[0] for shape in ("disk", "square")])
    n = len(X) // 2
    return X, np.repeat([0, 1], n), np.stack(np.divmod(np.arange(n * n), n), 1) + np.array([0, n])


def _between_shapes(method, seed):
    """NuMax and PCA see 2,000 secants between the classes, as in the paper, or NuMax
    every one of them; NuMax-Class all pairs.
    """
    X, y, pairs = _shapes()
    if method == "NuMax, every secant":
        return {"X": X, "pairs": pairs}
    pairs = pairs[np.random.default_rng(0).choice(len(pairs), 2000, replace=False)]
    if method == "NuMax":
        return {"X": X, "pairs": pairs}
    if method == "PCA":
        secants = X[pairs[:, 0]] - X[pairs[:, 1]]
        secants /= np.linalg.norm(secants, axis=1, keepdims=True)
        return {"X": np.vstack([secants, -secants])}
    return {"X": X, "y": y}


@dataclass(frozen=True)
class Shapes(Experiment):
    """Disk or square: noisy images, M measurements each, by the nearest clean image; a
    column is ``disk or square:M``.
    """

    def measure(self, column, method, run):
        X, y, _ = _shapes()
        seed = run if method == "random projection" else 0
        embedding, seconds = learned(_between_shapes, method, int(column.partition(":")[2]), seed)
        noisy = X + NOISE * np.random.default_rng(run).normal(size=X.shape)
        Z, Z_noisy = X @ embedding.components_.T, noisy @ embedding.components_.T
        return record(100 * knn_error(None, Z, y, Z_noisy, y, 1), embedding, seconds)


NUMAX_FIGURE12 = Shapes(
    name="numax-figure12",
    duration="minutes",
    title="Disk or square from few measurements",
    paper="Hegde et al. 2015, figure 12",
    quantity="1-NN error, %",
    columns=tuple(f"disk or square:{M}" for M in (5, 10, 15, 20)),
    methods={**LINEAR, **FROM_CLASSES},
    runs=10,
)

TABLES = (NUMAX_FIGURE9, NUMAX_FIGURE11, NUMAX_FIGURE12)
