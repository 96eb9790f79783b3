"""Seconds, processor seconds, memory and error of MetricClassifier and MetricRegressor by rows.

Every tree (a version of the library) fits each data set in a process of its own, in turn, after a fit of
300 rows that compiles. Columns: seconds of the fit (wall, processor); by how much the fit raised the peak
of the resident memory, in MB, and that relative to the rows in double precision as they come to the
metric (words encoded); error on rows that the fit has not seen, in percent (classes: wrong; numbers:
squared error relative to the variance); seconds (wall, processor) to predict 1,000 rows with sets or
intervals and the three training rows that decided, as the command line does.

    python -m benchmarks decisions_rows
    python -m benchmarks decisions_rows --trees before=PATH/src now=src --data blobs:4000 letter:15000
    python -m benchmarks decisions_rows --trees before=PATH/src now=src --data tables

Data: simulated (blobs, waves); letter and tables/*.csv of CONEMETRIC_DATA, where they are
Minutes: 12 on two cores (estimated)
"""

import statistics
import warnings

import numpy as np

from ..command import add_trees, command_parser
from ..data import existing_path, load, load_table
from ..measuring import peak_memory, timed
from ..output import print_row
from ..processes import in_own_process

DEFAULT = ("blobs:4000", "waves:4000", "blobs:10000", "letter:15000")
N_NEW = 2000  # rows that the fit has not seen, of simulated data
N_PREDICTED = 1000
N_WARM = 300
N_COLUMNS = 20
SHARE_OF_TABLES = 0.7  # of the rows of a table, to learn from
HEADS = ("wall", "processor", "MB", "x rows", "error %", "1,000 rows", "processor")


class Split:
    """Rows to learn from and new rows, with their targets."""

    def __init__(self, X, y, n_train, kind, seed):
        order = np.random.default_rng(seed).permutation(len(y))
        train, new = order[:n_train], order[n_train:]
        self.kind = kind
        self.y = y[train]
        self.y_new = y[new]
        if isinstance(X, np.ndarray):
            self.X = X[train]
            self.X_new = X[new]
        else:  # a data frame
            self.X = X.iloc[train]
            self.X_new = X.iloc[new]


def split_of(name, seed):
    """The `Split` of ``blobs:ROWS``, ``waves:ROWS``, ``letter:ROWS`` or of the name of a table."""
    from sklearn.datasets import make_classification

    source, _, rows = name.partition(":")
    if source == "letter":
        data = load("letter")
        return Split(data.X, data.y, int(rows), "classes", seed)
    if source == "blobs":
        n = int(rows)
        X, y = make_classification(
            n + N_NEW,
            N_COLUMNS,
            n_informative=N_COLUMNS // 2,
            n_clusters_per_class=4,
            class_sep=0.8,
            flip_y=0.05,
            random_state=seed,
        )
        return Split(X, y, n, "classes", seed)
    if source == "waves":
        n = int(rows)
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + N_NEW, N_COLUMNS))
        y = np.sin(X[:, 0] + X[:, 1]) + X[:, 2] * X[:, 3] + 0.3 * rng.normal(size=len(X))
        return Split(X, y, n, "numbers", seed)
    frame, y = load_table(name)
    kind = "numbers" if name.startswith("number") else "classes"
    n_train = int(SHARE_OF_TABLES * len(y))
    return Split(frame, y, n_train, kind, seed)


def measured(name, seed):
    """The columns of the table, as numbers."""
    from conemetric import MetricClassifier, MetricRegressor

    warnings.simplefilter("ignore")
    split = split_of(name, seed)
    estimator = MetricClassifier if split.kind == "classes" else MetricRegressor
    estimator(random_state=0).fit(split.X[:N_WARM], split.y[:N_WARM])
    before = peak_memory()
    model = estimator(random_state=0)
    fit = timed(model.fit, split.X, split.y)
    grown = peak_memory() - before
    n_features = model.components_.shape[1]
    bytes_of_rows = 8 * len(split.y) * n_features
    predicted = model.predict(split.X_new)
    if split.kind == "classes":
        error = 100 * float(np.mean(predicted != split.y_new))
    else:
        error = 100 * float(np.mean((predicted - split.y_new) ** 2) / np.var(split.y_new))
    some = split.X_new[:N_PREDICTED]
    decided = timed(_decide, model, some)
    per_thousand = 1000 / len(some)
    return [
        fit.wall,
        fit.processor,
        grown / 1e6,
        grown / bytes_of_rows,
        error,
        decided.wall * per_thousand,
        decided.processor * per_thousand,
    ]


def _decide(model, X):
    """What ``conemetric predict`` asks of a model; versions before `decide` had four calls."""
    if hasattr(model, "decide"):
        model.decide(X, n_rows=3)
        return
    model.explain(X, 3)
    model.predict(X)
    if hasattr(model, "predict_proba"):
        model.predict_proba(X)
        model.predict_set(X)
    else:
        model.predict_interval(X)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_trees(parser)
    parser.add_argument("--data", nargs="+", default=DEFAULT, help="NAME:ROWS, a table, or tables")
    parser.add_argument("--seeds", type=int, default=1, help="splits of each data set")
    options = parser.parse_args(arguments)
    names = list(options.data)
    if "tables" in names:
        folder = existing_path("SOURCES.md").parent / "tables"
        at = names.index("tables")
        names[at : at + 1] = sorted(path.stem for path in folder.glob("*.csv"))
    print_row("", HEADS, 36, 12)
    errors = {tree.name: [] for tree in options.trees}
    for name in names:
        for seed in range(options.seeds):
            for tree in options.trees:
                found = in_own_process(measured, name, seed, tree=tree.folder)
                errors[tree.name].append(found[HEADS.index("error %")])
                print_row(f"{name} {seed} {tree.name}", [f"{v:.2f}" for v in found], 36, 12)
    first, *others = errors
    for other in others:
        # plus one, so that tables without errors count too
        pairs = zip(errors[other], errors[first], strict=True)
        ratios = [(now + 1) / (before + 1) for now, before in pairs]
        mean = statistics.geometric_mean(ratios)
        print(f"error + 1 of {other} relative to {first}: geometric mean {mean:.4f}")
