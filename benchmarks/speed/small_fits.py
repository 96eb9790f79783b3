"""Seconds of small fits of every estimator, alone and beside busy processes.

Every tree (a version of the library) is measured in a process of its own, in turn, with as many busy
processes beside it as --busy says. A cell shows the seconds of a first fit (wall) and the medians of
the later ones (wall and processor). The last column has one thread everywhere
(``OMP_NUM_THREADS=1``), which is the floor.

    python -m benchmarks small_fits
    python -m benchmarks small_fits --trees before=PATH/src now=src --only FrobMetric --data wine

Data: wine, breast_cancer and digits of scikit-learn
Minutes: 25 on two cores (estimated)
"""

import inspect
import os
import statistics
import subprocess
import warnings

from ..command import add_trees, command_parser
from ..measuring import timed
from ..output import print_row
from ..processes import busy_processes, in_own_process, threads

ESTIMATORS = (
    "FrobMetric",
    "BoostMetric",
    "DMLEig",
    "LMNNEig",
    "RelativeComparisons",
    "NuMax",
    "GradientMetric",
    "AutoMetric",
    "MetricClassifier",
)
DATA = ("wine", "breast_cancer", "digits")
LIMIT = 120  # seconds of one process
CELL_WIDTH = 26


def fits(name, data, n_fits):
    """[wall, processor] seconds of every fit, the first of which starts with nothing compiled yet."""
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    import conemetric

    warnings.simplefilter("ignore")
    X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    X = X / 16 if data == "digits" else StandardScaler().fit_transform(X)
    method = getattr(conemetric, name)
    parameters = inspect.signature(method).parameters
    seed = {"random_state": 0} if "random_state" in parameters else {}
    labels = () if name == "NuMax" else (y,)
    found = [timed(method(**seed).fit, X, *labels) for _ in range(n_fits)]
    return [[fit.wall, fit.processor] for fit in found]


def cell(tree, environment, name, data, rounds):
    """Seconds of a first fit, and median seconds (wall, processor) of the later ones, as text."""
    try:
        seconds = in_own_process(
            fits, name, data, rounds + 1, tree=tree, environment=environment, limit=LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"> {LIMIT}"
    first, *later = seconds
    walls, processors = zip(*later, strict=True)
    shown = (first[0], statistics.median(walls), statistics.median(processors))
    return "".join(f"{value:8.2f}" for value in shown)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_trees(parser)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 4], help="busy processes")
    parser.add_argument("--rounds", type=int, default=3, help="fits after the first one")
    parser.add_argument("--only", nargs="+", default=ESTIMATORS, choices=ESTIMATORS)
    parser.add_argument("--data", nargs="+", default=DATA, choices=DATA)
    options = parser.parse_args(arguments)
    last = options.trees[-1]
    as_users_have_it = {"OMP_NUM_THREADS": None}
    columns = [(tree.name, tree.folder, as_users_have_it) for tree in options.trees]
    columns.append((f"{last.name}, one thread", last.folder, threads(1)))
    print(f"{os.cpu_count()} cores; each cell: first wall, later wall, later processor (s)")
    for busy in options.busy:
        print(f"\nbeside {busy} busy processes")
        print_row("", [name for name, _, _ in columns], 36, CELL_WIDTH)
        with busy_processes(busy):
            for data in options.data:
                for name in options.only:
                    cells = [
                        cell(folder, environment, name, data, options.rounds)
                        for _, folder, environment in columns
                    ]
                    print_row(f"{data:16}{name}", cells, 36, CELL_WIDTH)
