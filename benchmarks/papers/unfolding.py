"""Maximum variance unfolding: time, and how well neighbourhoods are kept, against
Isomap, locally linear embedding and principal components.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import trustworthiness

from conemetric.evaluation.manifold import neighbourhood_quality

from ..data import load
from .experiment import Competitor, Experiment, Published, ours, timed
from .spread import local_spread


def _points(column, run):
    if column == "swiss_roll":
        return make_swiss_roll(500, random_state=run)[0]
    return load(column).X


NEIGHBOURS = {"swiss_roll": 6, "teapots100_rgb76x101": 6, "frey": 5}


@dataclass(frozen=True)
class Unfolding(Experiment):
    """Seconds to embed in the plane; the trustworthiness of the embedding is kept beside it."""

    def measure(self, column, method, run):
        X = _points(column, run)
        k = NEIGHBOURS[column]
        embedding = self.methods[method].make().set_params(n_neighbors=k, n_components=2)
        flat: list[np.ndarray] = []
        seconds = timed(lambda: flat.append(embedding.fit_transform(X)))
        return {
            "value": seconds,
            "seconds": seconds,
            "trustworthiness": float(trustworthiness(X, flat[0], n_neighbors=k)),
        }


MVU_TIMES = Unfolding(
    name="frobmetric-mvu",
    duration="a minute",
    title="Maximum variance unfolding in the plane",
    paper="Shen et al. 2014, section IV-C (teapots there: all 400 images)",
    quantity="seconds",
    columns=tuple(NEIGHBOURS),
    methods={
        "MVU": ours("MaximumVarianceUnfolding"),
        "Isomap": Competitor("sklearn.manifold:Isomap"),
        "LLE": Competitor("sklearn.manifold:LocallyLinearEmbedding", {"eigen_solver": "dense"}),
    },
    published={("teapots100_rgb76x101", "MVU"): Published(4.0), ("frey", "MVU"): Published(131.0)},
)


@lru_cache(maxsize=64)
def _flattened(method):
    """500 points of a Swiss roll, their embedding in the plane, and its time; the columns
    share it.
    """
    X = _points("swiss_roll", 0)
    embedding = MVU_SIGMA.methods[method].make()
    flat: list[np.ndarray] = []
    seconds = timed(lambda: flat.append(embedding.fit_transform(X)))
    return X, flat[0], seconds


@dataclass(frozen=True)
class UnfoldingQuality(Experiment):
    """One column per measure, all of the same embedding: the mean of Q_nx over all
    neighbourhood sizes, or a measure of `local_spread`.
    """

    def measure(self, column, method, run):
        X, flat, seconds = _flattened(method)
        kind = column.partition(":")[2]
        if kind == "Q_nx":
            value = neighbourhood_quality(X, flat).Q_nx.mean()
        else:
            value = getattr(local_spread(X, flat, PLANE["n_neighbors"]), kind.lower())
        return {"value": float(value), "seconds": seconds}


PLANE: dict[str, Any] = {"n_neighbors": NEIGHBOURS["swiss_roll"], "n_components": 2}
MVU_SIGMA = UnfoldingQuality(
    name="frobmetric-mvu-sigma",
    title="Swiss roll of 500 points: what the regulariser does",
    paper="Shen et al. 2014, section IV-C",
    quantity="mean Q_nx; local spread",
    columns=tuple(f"swiss_roll:{kind}" for kind in ("Q_nx", "ALCD", "ALSTD", "ALED", "GSCD")),
    methods={
        **{
            f"{constraint}, sigma = {sigma:g}": ours(
                "MaximumVarianceUnfolding", constraint=constraint, sigma=sigma, **PLANE
            )
            for constraint in ("at_most", "equal")
            for sigma in (1e5, 5e5, 1e6, np.inf)
        },
        "Isomap": Competitor("sklearn.manifold:Isomap", PLANE),
        "LLE": Competitor(
            "sklearn.manifold:LocallyLinearEmbedding", {"eigen_solver": "dense", **PLANE}
        ),
        "PCA": Competitor("sklearn.decomposition:PCA", {"n_components": 2}),
    },
)

TABLES = (MVU_TIMES, MVU_SIGMA)
