"""Error by the number of rows that a metric learns from, while all rows vote.

FrobMetric learns from leading parts of the rows; 2,000 new rows are then classified by three neighbours
among all rows, in the metric learned from each part. Beyond 200,000 rows neighbours are searched among
a sample of 20,000, as in Dask collections. Rows of 32 features: 20 classes of 50 clusters each
in 12 directions and noise ("clusters"); 40 classes in 16 directions under noise whose spread falls off
over the features ("directions"); a border between two classes that winds along two directions of 30
("border").

    python -m benchmarks sample_of_rows
    python -m benchmarks sample_of_rows --rows 10000 100000 300000 1000000 --data border

Data: simulated
Minutes: 8 on two x86 cores
"""

import numpy as np

from conemetric import FrobMetric
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..measuring import timed
from ..output import print_row

ROWS = (1000, 3000, 10_000, 30_000, 100_000)
N_NEW = 2000
D = 32
# rows beyond which neighbours are searched among so many: all would take an hour for a million
MAX_ROWS_SEARCHED = 200_000
N_REFERENCES = 20_000


def clusters(rng, n):
    centres = rng.normal(size=(1000, 12))
    cluster = rng.integers(0, 1000, n)
    X = rng.normal(size=(n, D))
    X[:, :12] = centres[cluster] + 0.25 * X[:, :12]
    return X @ np.linalg.qr(rng.normal(size=(D, D)))[0], cluster % 20


def directions(rng, n):
    means = 2.0 * rng.normal(size=(40, 16))
    y = rng.integers(0, 40, n)
    X = rng.normal(size=(n, D)) * np.linspace(4.0, 0.5, D)
    X[:, -16:] += means[y]
    return X, y


def border(rng, n):
    X = rng.normal(size=(n, D))
    return X, (X[:, 0] > np.sin(3 * X[:, 1])).astype(int)


KINDS = {"clusters": clusters, "directions": directions, "border": border}


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--data", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args(arguments)
    print_row("error %, seconds", ["Euclidean", *(f"{n:,}" for n in options.rows)], 18, 16)
    for name in options.data:
        X, y = KINDS[name](np.random.default_rng(0), max(options.rows) + N_NEW)
        X, X_new = X[:-N_NEW], X[-N_NEW:]
        y, y_new = y[:-N_NEW], y[-N_NEW:]
        cells = [f"{100 * knn_error(None, X, y, X_new, y_new):.2f}"]
        for n in options.rows:
            references = None
            if n > MAX_ROWS_SEARCHED:
                references = N_REFERENCES
            metric = FrobMetric(n_references=references, random_state=0)
            seconds, _, metric = timed(metric.fit, X[:n], y[:n])
            error = knn_error(metric, X, y, X_new, y_new)
            cells.append(f"{100 * error:.2f} {seconds:.1f} s")
        print_row(name, cells, 18, 16)
