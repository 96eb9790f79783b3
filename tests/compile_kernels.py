"""Compile the loops that most tests call once, not in every process of the tests.

The first of these processes starts this script where nothing is compiled yet; while it runs, the
others collect tests. It ends by making the file that they wait for.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from conemetric import (
    FrobMetric,
    MaximumVarianceUnfolding,
    NuMax,
    QueryAdapter,
    RelativeComparisons,
)
from conemetric.engine.distance_kernels import KernelSetting
from conemetric.engine.kernel_ridge import fit_exactly
from conemetric.evaluation.knn import knn_error
from conemetric.neighbours import host
from conemetric.neighbours.search import nearest, neighbours_by_label
from conemetric.ranking import top_k


def compile_kernels():
    """Call everything that has loops of its own, in both precisions."""
    host.MAX_WORK_IN_NUMPY = 0  # so that few rows are searched by loops as well
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    rows = rng.normal(size=(60, 4)) + y[:, None]
    triplets = np.array([rng.permutation(60)[:3] for _ in range(40)])
    for dtype in (np.float64, np.float32):
        X = rows.astype(dtype)
        for points in (X, csr_array(X)):
            FrobMetric(C=1.0).fit(points, y)
            FrobMetric(C=1.0).fit(points, triplets=triplets)
        RelativeComparisons(C=1.0).fit(X, y)
        knn_error(None, X, y, X, y, [1, 3])
        nearest(X, None, 3)
        neighbours_by_label(X, y, 2, 2)
        top_k.search(X, X, 3, "inner")
        for kernel in ("gaussian", "city block"):
            fit_exactly(KernelSetting(kernel, 0.5, 0.1), X, np.eye(3)[y], np.ones(60))
    NuMax(0.5).fit(rows)
    MaximumVarianceUnfolding(4).fit(rows[:30])
    judged = np.column_stack([np.arange(20), np.arange(20), np.ones(20, int)])
    QueryAdapter().fit(rows[:20], rows, relevance=judged)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        compile_kernels()
    finally:
        Path(sys.argv[1]).touch()
