"""Labeled Faces in the Wild, view 2: same person or not, ten folds. The papers used SIFT features; here pixels and LBP.

Each run holds out one fold; the reported accuracy is the mean over folds. The threshold is set on the fold after it, which the
metric does not see either: on the pairs a metric was learned from it would be too optimistic.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import roc_curve

from ..datasets import load
from ..evaluation.verification import best_threshold, distance_score, marginalised_knn_score
from .definition import Experiment, Method, ours, published_table
from .timing import timed

FACE_SHAPE = (62, 47)
CELLS = (7, 5)  # LBP histograms over this many rows and columns of cells
GRID = np.linspace(0, 1, 51)  # false positive rates at which the ROC curve is kept


def local_binary_patterns(images):
    """Square roots of the histograms of uniform local binary patterns (8 neighbours, radius 1) over a grid of cells.

    Parameters
    ----------
    images : array (n, height, width)

    Returns
    -------
    array (n, cells * 59)

    Examples
    --------
    >>> import numpy as np
    >>> from conemetric.experiments.faces import local_binary_patterns
    >>> local_binary_patterns(np.zeros((2, 62, 47))).shape
    (2, 2065)
    """
    centre = images[:, 1:-1, 1:-1]
    height, width = centre.shape[1:]
    shifts = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]  # around the centre
    code = np.zeros(centre.shape, dtype=np.uint8)
    for bit, (down, right) in enumerate(shifts):
        code |= (images[:, down : down + height, right : right + width] >= centre).astype(np.uint8) << bit
    label = _uniform_labels()[code]
    rows, columns = (np.arange(size) * cells // size for size, cells in zip((height, width), CELLS, strict=True))
    cell = rows[:, None] * CELLS[1] + columns
    bins = CELLS[0] * CELLS[1] * 59
    flat = (cell * 59 + label).reshape(len(images), -1) + np.arange(len(images))[:, None] * bins
    return np.sqrt(np.bincount(flat.ravel(), minlength=len(images) * bins).reshape(len(images), bins))


def _uniform_labels():
    """Patterns with at most two changes between 0 and 1 around the circle have a bin each, the others share one."""
    codes = np.arange(256)
    bits = codes[:, None] >> np.arange(8) & 1
    uniform = (bits != np.roll(bits, 1, axis=1)).sum(1) <= 2
    labels = np.full(256, 58)
    labels[uniform] = np.arange(uniform.sum())
    return labels


@lru_cache(maxsize=2)
def _features(name, kind):
    data = load(name, dtype=np.float32)
    X = data.X if kind == "pixels" else local_binary_patterns(data.X.reshape(-1, *FACE_SHAPE)).astype(np.float32)
    pairs, same, fold = (np.asarray(data.extras[key]) for key in ("pairs", "same", "fold"))
    return X, data.y, pairs.astype(np.int64), same.astype(bool), fold


@dataclass(frozen=True)
class FaceVerification(Experiment):
    """Accuracy on one held-out fold; a column is ``set:features-dimension``.

    A method whose name ends in "restricted" sees pairs only, any other the identities; "Mk-NN" in the name scores by
    marginalised k-NN instead of by distance.
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
            score += 1e-9 * distance_score(metric, Z, pairs)  # most pairs share no neighbour's label; the distance decides
        else:
            score = distance_score(metric, Z, pairs)
        threshold, _ = best_threshold(score[held_out], same[held_out])
        accuracy = 100 * np.mean((score[test] >= threshold) == same[test])
        false_positive, true_positive, _ = roc_curve(same[test], score[test])
        curve = [GRID.tolist(), np.interp(GRID, false_positive, true_positive).tolist()]
        return {"value": float(accuracy), "seconds": seconds, "curve": curve}


COLUMNS = tuple(f"lfw_view2_62x47:{kind}-{size}" for kind in ("pixels", "lbp") for size in (100, 200))
COMMON: dict[str, Any] = dict(quantity="accuracy, %", columns=COLUMNS, runs=10, lower_is_better=False)

FROBMETRIC_TABLE2 = FaceVerification(
    name="frobmetric-table2",
    title="Face pairs with identities known (published: SIFT features)",
    paper="Shen et al. 2014, table II",
    methods={
        "Euclidean": Method(),
        "Euclidean, Mk-NN": Method(),
        "FrobMetric": ours("FrobMetric"),
        "FrobMetric, Mk-NN": ours("FrobMetric"),
        "BoostMetric": ours("BoostMetric", max_iter=100),
        "DML-eig": ours("DMLEig"),
    },
    published=published_table(COLUMNS, "FrobMetric, Mk-NN | 82.72 (1.24) | 83.69 (1.23) | 82.72 (1.24) | 83.69 (1.23)"),
    **COMMON,
)
DML_EIG_TABLE6 = FaceVerification(
    name="dml-eig-table6",
    title="Face pairs, restricted protocol (published: SIFT features, PCA 100)",
    paper="Ying & Li 2012, table 6",
    methods={"Euclidean": Method(), "DML-eig, restricted": ours("DMLEig")},
    published=published_table(COLUMNS, "DML-eig, restricted | 81.27 | - | 81.27 | -"),
    **COMMON,
)

TABLES = (FROBMETRIC_TABLE2, DML_EIG_TABLE6)
