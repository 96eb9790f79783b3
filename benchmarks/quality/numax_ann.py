"""Nearest neighbours kept by NuMax, PCA and random projection at the same dimension
(the paper's figure 9), on LFW pixels.

    python benchmarks/numax_ann.py --data DIR --points 4000 --pool 4

Images of 62 x 47 pixels, averaged over squares of ``pool`` pixels; no PCA anywhere
before the embedding.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.random_projection import GaussianRandomProjection

from conemetric import NuMax
from conemetric.evaluation.isometry import isometry_constant
from conemetric.evaluation.knn import neighbour_recall

K = (1, 2, 5, 10, 20, 50)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="data")
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--pool", type=int, default=4)
    parser.add_argument("--deltas", type=float, nargs="+", default=[0.4, 0.25])
    options = parser.parse_args()
    with np.load(Path(options.data) / "lfw_view2_62x47.npz") as file:
        images = file["X"].reshape(-1, 62, 47) / 255.0
    p = options.pool
    images = images[:, : 62 - 62 % p, : 47 - 47 % p]
    X = images.reshape(len(images), 62 // p, p, 47 // p, p).mean((2, 4)).reshape(len(images), -1)
    X = X[np.random.default_rng(0).permutation(len(X))]
    queries, X = X[: options.queries], X[options.queries : options.queries + options.points]
    print(
        f"{len(X)} points of {X.shape[1]} pixels, {len(queries)} queries; share of the k nearest "
        "kept, k =",
        *K,
    )
    for delta in options.deltas:
        began = time.perf_counter()
        numax = NuMax(delta).fit(X)
        seconds = time.perf_counter() - began
        rank, c = len(numax.components_), numax.certificate_
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


if __name__ == "__main__":
    main()
