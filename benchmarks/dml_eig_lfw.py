"""Face verification on LFW, restricted protocol: DML-eig from same / not-same pairs alone, ten folds.

Pixels and local binary patterns (histograms over a grid of cells), square root, PCA; accuracy and area under the ROC curve of
DML-eig, of the Euclidean distance, and of whitening by the similar pairs (M = X_S^-1, the metric that DML-eig starts from).
Eight folds to learn from, one for the threshold, one to verify: pairs learned from say nothing about the threshold.

    CONEMETRIC_DATA=... python benchmarks/dml_eig_lfw.py [--dimensions 100] [--roc roc.png]
"""

import argparse
import time
from functools import cache

import numpy as np
from skimage.feature import local_binary_pattern
from sklearn.decomposition import PCA

from conemetric import DMLEig
from conemetric.datasets import load
from conemetric.evaluation.verification import cross_validate, distance_score

HEIGHT, WIDTH, CELL = 62, 47, 8


def lbp(images):
    """Histograms of uniform binary patterns (8 neighbours, radius 1) in cells of CELL x CELL pixels."""
    features = []
    for image in images.astype(np.uint8).reshape(-1, HEIGHT, WIDTH):
        codes = local_binary_pattern(image, 8, 1, "nri_uniform").astype(int)
        cells = [
            np.bincount(codes[i : i + CELL, j : j + CELL].ravel(), minlength=59)
            for i in range(0, HEIGHT - CELL // 2, CELL)
            for j in range(0, WIDTH - CELL // 2, CELL)
        ]
        features.append(np.concatenate(cells))
    return np.array(features, dtype=np.float32)


class Whitening:
    """The metric X_S^-1 of the similar pairs."""

    def fit(self, X, pairs, similar):
        d = (X[pairs[:, 0]] - X[pairs[:, 1]])[similar]
        self.R = np.linalg.cholesky(d.T @ d)
        return self

    def transform(self, X):
        return np.linalg.solve(self.R, X.T).T


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimensions", type=int, default=100)
    parser.add_argument("--ridge", type=float, default=1e-8)
    parser.add_argument("--roc", help="file for a picture of the ROC curves")
    args = parser.parse_args()
    data = load("lfw_view2_62x47")
    pairs, same, fold = (data.extras[key] for key in ("pairs", "same", "fold"))
    pairs, same = np.asarray(pairs, dtype=np.int64), np.asarray(same, dtype=bool)
    curves = {}
    for name, features in (("pixels", data.X.astype(np.float32)), ("LBP", lbp(data.X))):
        root, gaps, seconds = np.sqrt(features), [], []

        @cache
        def reduced(folds, root=root):
            seen = np.unique(pairs[np.isin(fold, folds)])
            return PCA(args.dimensions, svd_solver="randomized", random_state=0).fit(root[seen]).transform(root).astype(float)

        def prepared(train, reduced=reduced):
            return reduced(tuple(np.unique(fold[train])))

        def euclidean(train, prepared=prepared):
            return distance_score(None, prepared(train), pairs)

        def whitening(train, prepared=prepared):
            X = prepared(train)
            return distance_score(Whitening().fit(X, pairs[train], same[train]), X, pairs)

        def dml_eig(train, prepared=prepared, gaps=gaps, seconds=seconds):
            X = prepared(train)
            began = time.perf_counter()
            metric = DMLEig(ridge=args.ridge).fit(X, pairs=pairs[train], similar=same[train])
            seconds.append(time.perf_counter() - began)
            gaps.append(metric.certificate_.relative_gap)
            return distance_score(metric, X, pairs)

        for label, score in (("Euclidean", euclidean), ("whitening", whitening), ("DML-eig", dml_eig)):
            result = cross_validate(score, same, fold, learns=True)
            curves[f"{name}, {label}"] = result
            note = f"   gap {max(gaps):.1e}, {np.mean(seconds):.2f} s a fit" if gaps else ""
            print(
                f"{name:7s} {label:10s} accuracy {100 * result.mean:5.2f} +- {100 * result.standard_error:4.2f} %   "
                f"AUC {result.auc:.4f}{note}",
                flush=True,
            )
    if args.roc:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        for label, result in curves.items():
            pyplot.plot(result.false_positive_rate, result.true_positive_rate, label=f"{label} ({result.auc:.3f})")
        pyplot.xlabel("false positives")
        pyplot.ylabel("true positives")
        pyplot.legend()
        pyplot.savefig(args.roc, dpi=150)


if __name__ == "__main__":
    main()
