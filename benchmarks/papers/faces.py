"""Labeled Faces in the Wild, view 2: same person or not, ten folds. The papers used
SIFT features; here pixels, LBP and HOG.

Each run holds out one fold; the reported accuracy is the mean over folds. The threshold
is set on the fold after it, which the metric does not see either: on the pairs a metric
was learned from it would be too optimistic.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.metrics import roc_curve

from conemetric.core.arrays import to_numpy
from conemetric.evaluation.verification import best_threshold, distance_score
from conemetric.neighbours.search import nearest
from conemetric.neighbours.ties import labelled_keys

from ..data import load
from .baselines import WHITENING
from .experiment import BOOSTING, Competitor, Experiment, ours, published_table, timed
from .features import local_binary_patterns, oriented_gradients

FACE_SHAPE = (62, 47)
GRID = np.linspace(0, 1, 51)  # false positive rates at which the ROC curve is kept
FEATURES = {
    "pixels": lambda images: images.reshape(len(images), -1),
    # of histograms the square root, with which the DML-eig paper has its best results
    "lbp": local_binary_patterns,
    "hog": lambda images: np.sqrt(oriented_gradients(images)),
}


@lru_cache(maxsize=2)
def _features(name, kind):
    data = load(name, dtype=np.float32)
    X = FEATURES[kind](data.X.reshape(-1, *FACE_SHAPE)).astype(np.float32)
    pairs, same, fold = (np.asarray(data.extras[key]) for key in ("pairs", "same", "fold"))
    return X, data.y, pairs.astype(np.int64), same.astype(bool), fold


@dataclass(frozen=True)
class FaceVerification(Experiment):
    """Accuracy on one held-out fold; a column is ``set:features-dimension``.

    A method whose name ends in "restricted" sees pairs only, any other the identities;
    "Mk-NN" in the name scores by marginalised k-NN instead of by distance.
    """

    def measure(self, column, method, run):
        name, _, variant = column.partition(":")
        kind, _, dimension = variant.partition("-")
        X, people, pairs, same, fold = _features(name, kind)
        names = np.unique(fold)
        test, held_out = fold == names[run], fold == names[(run + 1) % len(names)]
        train = ~(test | held_out)
        seen = np.unique(pairs[train])
        Z = PCA(int(dimension), svd_solver="randomized", random_state=0).fit(X[seen]).transform(X)
        metric, seconds = self.methods[method].make(), 0.0
        if metric is not None:
            if method.endswith("restricted"):
                seconds = timed(lambda: metric.fit(Z, pairs=pairs[train], similar=same[train]))
            else:
                seconds = timed(lambda: metric.fit(Z[seen], people[seen]))
        if "Mk-NN" in method:
            score = marginalised_knn_score(metric, Z[seen], people[seen], Z, pairs, 100)
            # most pairs share no neighbour's label; the distance decides
            score += 1e-9 * distance_score(metric, Z, pairs)
        else:
            score = distance_score(metric, Z, pairs)
        threshold, _ = best_threshold(score[held_out], same[held_out])
        accuracy = 100 * np.mean((score[test] >= threshold) == same[test])
        false_positive, true_positive, _ = roc_curve(same[test], score[test])
        curve = [GRID.tolist(), np.interp(GRID, false_positive, true_positive).tolist()]
        return {"value": float(accuracy), "seconds": seconds, "curve": curve}


def marginalised_knn_score(metric, X_train, y_train, X, pairs, n_neighbors=100):
    """Probability that the two points of each pair share a label, by marginalised k-NN.

    P(same) = sum_c n_c(x) n_c(x') / k^2, with n_c(x) the number of the k nearest
    training points of x that have label c (Guillaumin, Verbeek & Schmid, "Is that you?
    Metric learning approaches for face identification", ICCV 2009). ``pairs`` are rows
    of X, and ``metric`` may be None for the Euclidean distance.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.papers.faces import marginalised_knn_score
    >>> X, y = np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 0, 1, 1])
    >>> marginalised_knn_score(None, X, y, X, np.array([[0, 1], [0, 2]]), n_neighbors=2)
    array([1., 0.])
    """
    if not 1 <= n_neighbors <= len(X_train):
        raise ValueError(
            f"n_neighbors={n_neighbors} must be from 1 to the {len(X_train)} training points."
        )
    keys = labelled_keys(X_train, y_train)
    if metric is not None:
        X_train, X = metric.transform(X_train), metric.transform(X)
    classes, labels = np.unique(y_train, return_inverse=True)
    neighbours = to_numpy(nearest(X, X_train, n_neighbors, keys)[0])
    rows = np.repeat(np.arange(len(X)), n_neighbors)
    ones = np.ones(rows.size)
    counts = sparse.csr_array(
        (ones, (rows, labels[neighbours].ravel())), shape=(len(X), len(classes))
    )
    counts.sum_duplicates()
    pairs = np.asarray(pairs, dtype=np.int64)
    return (
        np.asarray(counts[pairs[:, 0]].multiply(counts[pairs[:, 1]]).sum(axis=1)).ravel()
        / n_neighbors**2
    )


COLUMNS = tuple(f"lfw_view2_62x47:{kind}-{size}" for kind in FEATURES for size in (100, 200))
COMMON: dict[str, Any] = dict(
    quantity="accuracy, %", columns=COLUMNS, runs=10, lower_is_better=False
)

FROBMETRIC_TABLE2 = FaceVerification(
    name="frobmetric-table2",
    duration="minutes",
    title="Face pairs with identities known (published: SIFT features)",
    paper="Shen et al. 2014, table II",
    methods={
        "Euclidean": Competitor(),
        "Euclidean, Mk-NN": Competitor(),
        "FrobMetric": ours("FrobMetric"),
        "FrobMetric, Mk-NN": ours("FrobMetric"),
        "BoostMetric": ours("BoostMetric", **{**BOOSTING, "max_iter": 100}),
        "DML-eig": ours("DMLEig"),
    },
    published=published_table(
        COLUMNS, "FrobMetric, Mk-NN" + " | 82.72 (1.24) | 83.69 (1.23)" * len(FEATURES)
    ),
    **COMMON,
)
DML_EIG_TABLE6 = FaceVerification(
    name="dml-eig-table6",
    duration="minutes",
    title="Face pairs, restricted protocol (published: SIFT features, PCA 100)",
    paper="Ying & Li 2012, table 6",
    methods={
        "Euclidean": Competitor(),
        "whitening, restricted": WHITENING,
        "DML-eig, restricted": ours("DMLEig"),
    },
    published=published_table(COLUMNS, "DML-eig, restricted" + " | 81.27 | -" * len(FEATURES)),
    **COMMON,
)

TABLES = (FROBMETRIC_TABLE2, DML_EIG_TABLE6)
