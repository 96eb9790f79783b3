"""How much the error on letter depends on the split: FrobMetric on random splits of the papers' size.

10,500 points train, 4,500 validate, 5,000 test; 3-NN. Run 0 is the split of the tables here (the last
5,000 rows test), the others are drawn from all 20,000 rows. A pass learns a metric from triplets found
in the space of the passes before (the *MP* of the papers); each pass has its C chosen on validation,
and so is the number of passes. Runs that are in the file of --out are not measured again.

With --boost: logistic BoostMetrics of three passes on the first split instead, for many numbers of
targets and impostors.

    python -m benchmarks letter_splits --runs 10 --jobs 1 --passes 4 --out letter.jsonl

Data: letter
Minutes: 5 on one core (estimated); hours with --boost
"""

import itertools
import os
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning

from conemetric import BoostMetric, frobmetric_path
from conemetric.evaluation.knn import knn_error

from ..command import command_parser
from ..data import load
from ..output import Records
from ..papers.experiment import ScaleFreeC
from ..papers.knn_protocol import Split, evaluate, official_split

GRID = ScaleFreeC(100, 300, 1e3, 3e3, 1e4, 3e4)
PUBLISHED = 2.36


def split(run):
    if run == 0:
        return official_split(20000, 15000, 4500)
    order = np.random.default_rng(run).permutation(20000)
    return Split(order[:10500], order[10500:15000], order[15000:])


def measure(run, passes):
    data = load("letter")
    parts = split(run)
    rows = (parts.train, parts.validation, parts.test)
    spaces = [data.X[part] for part in rows]
    labels = [data.y[part] for part in rows]
    errors = [_errors(None, spaces, labels)]
    for _ in range(passes):
        Cs = [choice["C"] for choice in GRID(spaces[0], labels[0])]
        path = frobmetric_path(spaces[0], labels[0], Cs=Cs, n_impostors=3, tol=1e-2)
        metric = min(path, key=lambda metric: _errors(metric, spaces[:2], labels[:2])[0])
        errors.append(_errors(metric, spaces, labels))
        spaces = [metric.transform(space) for space in spaces]
    best = min(range(len(errors)), key=lambda index: errors[index][0])
    validation, test = zip(*errors, strict=True)
    return {
        "run": run,
        "validation": validation,
        "test": test,
        "passes": best,
        "chosen": test[best],
    }


def _errors(metric, spaces, labels):
    """3-NN error in per cent on each part but the first, which is searched."""
    return [
        100 * knn_error(metric, spaces[0], labels[0], space, label)
        for space, label in zip(spaces[1:], labels[1:], strict=True)
    ]


def boosted(solver, n_targets, n_impostors):
    data = load("letter")
    metric = BoostMetric(
        1e-7,
        loss="logistic",
        solver=solver,
        n_passes=3,
        n_targets=n_targets,
        n_impostors=n_impostors,
    )
    with warnings.catch_warnings():
        # so small a v leaves the stop to validation
        warnings.simplefilter("ignore", ConvergenceWarning)
        outcome = evaluate(
            metric, data.X, data.y, split(0), stages=(20, 50, 100, 200, 300, 400, 500)
        )
    return (
        f"{solver}, {n_targets} targets, {n_impostors} impostors: validation "
        f"{100 * outcome.validation_error:.2f}, test {100 * outcome.test_error:.2f} after "
        f"{outcome.parameters['stage']} iterations"
    )


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("letter.jsonl"))
    parser.add_argument("--boost", action="store_true")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.boost:
        choices = itertools.product(("stagewise", "corrective"), (1, 2, 3, 5), (1, 2, 3, 5, 10))
        for line in Parallel(options.jobs, return_as="generator")(
            delayed(boosted)(*choice) for choice in choices
        ):
            print(line, flush=True)
        return
    file = Records(options.out)
    done = file.read()
    todo = sorted(set(range(options.runs)) - {record["run"] for record in done})
    for record in Parallel(options.jobs, return_as="generator_unordered")(
        delayed(measure)(run, options.passes) for run in todo
    ):
        done.append(record)
        file.append(record)
        print(record, flush=True)
    test = np.array([record["test"] for record in done])
    for index, errors in enumerate(test.T):
        name = "Euclidean" if index == 0 else f"{index} passes"
        print(
            f"{name:10s} {errors.mean():.2f} ({errors.std(ddof=1):.2f}), from {errors.min():.2f} "
            f"to {errors.max():.2f}"
        )
    chosen = np.array([record["chosen"] for record in done])
    spread = chosen.std(ddof=1)
    print(
        f"passes by validation {chosen.mean():.2f} ({spread:.2f}); "
        f"{np.mean(chosen <= PUBLISHED):.0%} at or below {PUBLISHED}"
    )
