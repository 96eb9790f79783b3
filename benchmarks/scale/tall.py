"""Seconds of the parts of a fit to many rows of large embeddings, by one or more versions of the library.

The rows are 20,000 x 1,536 in float32: 40 classes in 60 directions, noise whose spread falls off over
the features, unit length. Each version (--trees) is measured in a process of its own. It searches
the neighbours itself, and its solve is timed on the triplets of the first version: adjoint,
eigendecomposition, forward, how often each, and the certificate.

    python -m benchmarks tall
    git archive REVISION src | tar x -C ../before
    python -m benchmarks tall --trees before=../before/src now=src --rows 2000 --features 256

Data: simulated
Minutes: 1 for each version
"""

import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..command import add_trees, command_parser
from ..measuring import timed
from ..processes import in_own_process


def embeddings(n, D):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 40, n)
    centres = rng.normal(size=(40, 60)) @ rng.normal(size=(60, D)) / 60**0.5
    X = centres[y] + 2.5 * rng.normal(size=(n, D)) * np.linspace(1.5, 0.5, D)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


class Clock:
    """Seconds and calls of some functions, by name."""

    def __init__(self):
        self.seconds = {}
        self.calls = {}

    def watch(self, owner, function, name):
        original = getattr(owner, function)

        def timed(*args, **options):
            began = time.perf_counter()
            try:
                return original(*args, **options)
            finally:
                spent = time.perf_counter() - began
                self.seconds[name] = self.seconds.get(name, 0.0) + spent
                self.calls[name] = self.calls.get(name, 0) + 1

        setattr(owner, function, timed)


def measure(n, D, file):
    """What the library of this process takes; triplets are those in the file, once it is there."""
    warnings.simplefilter("ignore")
    from conemetric import FrobMetric
    from conemetric.constraints.in_memory import triplets_from_labels
    from conemetric.core import spectral
    from conemetric.engine.operators.numpy_pairs import PairOperator

    small = embeddings(300, 20)
    FrobMetric(max_iter=3).fit(small[0], small[1])  # compile
    X, y = embeddings(n, D)
    searching = timed(triplets_from_labels, X, y, 3, 3)
    if not Path(file).exists():
        np.save(file, searching.result)
    triplets = np.load(file)
    clock = Clock()
    clock.watch(PairOperator, "pair_adjoint", "adjoint")
    clock.watch(PairOperator, "pair_forward_factor", "forward")
    clock.watch(spectral, "psd_split", "eigendecomposition")
    fitting = timed(FrobMetric(C=1000.0).fit, X, triplets=triplets)
    metric = fitting.result
    certificate = metric.certificate_
    return {
        "neighbours": searching.wall,
        "fit": fitting.wall,
        "processor": fitting.processor,
        "seconds": clock.seconds,
        "calls": clock.calls,
        "primal": certificate.primal,
        "dual": certificate.dual,
        "gap": certificate.relative_gap,
        "rank": metric.components_.shape[0],
        "iterations": metric.n_iter_,
    }


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_trees(parser)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--features", type=int, default=1536)
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        file = f"{folder}/triplets.npy"
        for tree in options.trees:
            found = in_own_process(measure, options.rows, options.features, file, tree=tree.folder)
            parts = ", ".join(
                f"{part} {seconds:.2f} s ({found['calls'][part]} times)"
                for part, seconds in found["seconds"].items()
            )
            print(
                f"{tree.name}: neighbours {found['neighbours']:.1f} s; fit to the triplets "
                f"{found['fit']:.1f} s ({found['processor']:.1f} s of processors): {parts}; "
                f"objective {found['primal']:.6g}, bound {found['dual']:.6g}, gap "
                f"{found['gap']:.1e}, rank {found['rank']}, {found['iterations']} iterations",
                flush=True,
            )
