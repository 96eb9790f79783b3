"""Nearest neighbours kept by NuMax, PCA and random projection at the same dimension, on LFW pixels.

This is figure 9 of the paper. Images of 62 x 47 pixels are averaged over squares of --pool pixels; there
is no PCA before the embedding. Prints the share of the k nearest neighbours that each embedding keeps,
and its isometry constant.

    python -m benchmarks numax_ann --points 4000 --pool 4

Data: lfw_view2_62x47
Minutes: 5 (estimated)
"""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

from conemetric import NuMax
from conemetric.evaluation.knn import neighbour_recall
from conemetric.papers.numax.measures import isometry_constant

from ..command import command_parser
from ..data import load
from ..measuring import timed

K = (1, 2, 5, 10, 20, 50)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--pool", type=int, default=4)
    parser.add_argument("--deltas", type=float, nargs="+", default=[0.4, 0.25])
    options = parser.parse_args(arguments)
    images = load("lfw_view2_62x47").X.reshape(-1, 62, 47) / 255
    p = options.pool
    images = images[:, : 62 - 62 % p, : 47 - 47 % p]
    X = images.reshape(len(images), 62 // p, p, 47 // p, p).mean((2, 4)).reshape(len(images), -1)
    X = X[np.random.default_rng(0).permutation(len(X))]
    queries = X[: options.queries]
    X = X[options.queries : options.queries + options.points]
    print(
        f"{len(X)} points of {X.shape[1]} pixels, {len(queries)} queries; share of the k nearest "
        "kept, k =",
        *K,
    )
    for delta in options.deltas:
        seconds, _, numax = timed(NuMax(delta).fit, X)
        rank = len(numax.components_)
        c = numax.certificate_
        print(
            f"delta {delta}: rank {rank}, {seconds:.1f} s, gap {c.relative_gap:.1e}, violation "
            f"{c.violation:.1e}, {c.status}"
        )
        embeddings = {
            "NuMax": numax,
            "PCA": PCA(rank, random_state=0).fit(X),
            "random projection": GaussianRandomProjection(rank, random_state=0).fit(X),
        }
        for name, embedding in embeddings.items():
            worst = isometry_constant(embedding, X).worst
            print(
                f"  {name:18s}",
                *(f"{neighbour_recall(embedding, X, queries, k):.3f}" for k in K),
                f"  isometry constant {worst:.3f}",
                flush=True,
            )
