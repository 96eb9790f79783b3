"""Seconds of NuMax with a small delta, as it is and by ADMM alone.

As it is, an interior-point method takes over rounds that take long. The rows are 60 points of rank 3
with noise of 0.1 in 10 features at delta = 0.1, 0.01 and 0.001, and wine by class. Prints processor
seconds, status and violation in units of delta; all should converge, the slowest in 2 s.

    python -m benchmarks numax_tight --seeds 3 4

Data: simulated; wine
Minutes: 2
"""

import warnings

import numpy as np
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from conemetric import NuMax
from conemetric.papers.numax import secant_generation

from ..command import command_parser
from ..measuring import timed


def instances(seeds):
    """(name, X, y or None)."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        low_rank = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 10))
        yield f"rank 3, seed {seed}", low_rank + 0.1 * rng.normal(size=(60, 10)), None
    X, y = load_wine(return_X_y=True)
    yield "wine by class", StandardScaler().fit_transform(X), y


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[3, 4])
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", ConvergenceWarning)
    NuMax(0.3).fit(np.random.default_rng(0).normal(size=(20, 3)))  # compile
    small = secant_generation.SMALL
    for name, X, y in instances(options.seeds):
        for delta in (0.1, 0.01, 0.001):
            print(f"{name:15} delta {delta:<6g}", end="")
            for label, limit in (("as it is", small), ("ADMM alone", 0)):
                secant_generation.SMALL = limit
                fit = timed(NuMax(delta, class_aware=y is not None).fit, X, y)
                c = fit.result.certificate_
                print(
                    f"   {label} {fit.processor:5.1f} s {c.status} {c.violation:.1e}",
                    end="",
                    flush=True,
                )
            print()
