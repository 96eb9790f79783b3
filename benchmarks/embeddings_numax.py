"""Compressing frozen text embeddings: NuMax at a few distortions, beside PCA and random projection of the same dimension.

    CONEMETRIC_DATA=... python benchmarks/embeddings_numax.py [--deltas 0.6 0.4] [--class-aware] [--rows N] [--out FILE.jsonl]

For each embedding: its dimension, the share of a test text's ten nearest training texts that it keeps (recall@10), and 1-NN and
10-NN label error. NuMax bounds every pairwise distance of the training texts; the fit runs on the GPU where there is one.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from conemetric import NuMax
from conemetric.datasets import load
from conemetric.evaluation.isometry import baselines
from conemetric.evaluation.knn import knn_error
from conemetric.evaluation.retrieval import neighbour_recall
from conemetric.experiments.isometry import on_device


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deltas", type=float, nargs="*", default=[0.6, 0.4])
    parser.add_argument("--class-aware", action="store_true")
    parser.add_argument("--rows", type=int, help="training texts used at most")
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--out", type=Path, default=Path("embeddings_numax.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load("debian_minilm384")
    n = min(options.rows or data.n_train, data.n_train)
    X, y, T, labels = data.X[:n], data.y[:n], data.X[data.n_train :], data.y[data.n_train :]

    def judge(name, embedding, dimension, **more):
        errors = knn_error(embedding, X, y, T, labels, [1, 10])
        record = {"name": name, "dimension": dimension, "recall@10": 100 * neighbour_recall(embedding, X, T, 10)}
        record |= {"1-NN": 100 * errors[0], "10-NN": 100 * errors[1], **more}
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in record.items()}, flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(record) + "\n")

    judge("Euclidean", None, X.shape[1])
    for delta in options.deltas:
        embedding, began = NuMax(delta=delta, class_aware=options.class_aware, tol=options.tol), time.perf_counter()
        embedding.fit(on_device(X), y) if options.class_aware else embedding.fit(on_device(X))
        certificate, rank = embedding.certificate_, int(embedding.components_.shape[0])
        judge(
            "NuMax-Class" if options.class_aware else "NuMax",
            embedding,
            rank,
            delta=delta,
            seconds=time.perf_counter() - began,
            active=len(embedding.active_pairs_),
            violation=float(certificate.violation),
            relative_gap=float(certificate.relative_gap),
        )
        for name, baseline in baselines(np.asarray(X, dtype=np.float64), rank).items():
            judge(name, baseline, rank)


if __name__ == "__main__":
    main()
