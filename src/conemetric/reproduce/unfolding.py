"""Maximum variance unfolding: time, and how well neighbourhoods are kept, against
Isomap and locally linear embedding.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import make_swiss_roll
from sklearn.manifold import trustworthiness

from ..datasets import load
from .definition import Competitor, Experiment, Published, ours
from .timing import timed


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

TABLES = (MVU_TIMES,)
