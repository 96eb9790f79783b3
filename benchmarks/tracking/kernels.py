"""Times of the kernels and of one small fit, tracked between commits by asv (``asv
run``, configured in asv.conf.json).
"""

import numpy as np

from conemetric import FrobMetric
from conemetric.core.spectral import psd_split
from conemetric.engine.operators import from_triplets
from conemetric.neighbours.search import neighbours_by_label


def data(n=2000, D=50):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.normal(size=(n, D))
    X[:, :5] += 2 * np.eye(5)[y]
    return X, y


class Operator:
    """Forward and adjoint on 90,000 triplets."""

    def setup(self):
        X, _ = data()
        rng = np.random.default_rng(1)
        triplets = rng.integers(0, len(X), (100_000, 3))
        i, j, k = triplets.T
        self.operator = from_triplets(X, triplets[(i != j) & (i != k) & (j != k)])
        self.factor = rng.normal(size=(50, 20))
        self.weights = rng.random(self.operator.n_constraints)
        self.operator.adjoint(self.weights)
        self.operator.forward_factor(self.factor)

    def time_forward(self):
        self.operator.forward_factor(self.factor)

    def time_adjoint(self):
        self.operator.adjoint(self.weights)


class Pieces:
    """Neighbour search, eigen-step, and a whole fit."""

    def setup(self):
        self.X, self.y = data()
        A = np.random.default_rng(2).normal(size=(400, 400))
        self.symmetric = A + A.T
        neighbours_by_label(self.X, self.y, 3, 3)
        FrobMetric(tol=0.1).fit(self.X[:200], self.y[:200])

    def time_neighbours(self):
        neighbours_by_label(self.X, self.y, 3, 3)

    def time_psd_split(self):
        psd_split(self.symmetric)

    def time_frobmetric(self):
        FrobMetric().fit(self.X, self.y)
