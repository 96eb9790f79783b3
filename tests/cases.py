"""Which cases a test runs: pairs of options in the place of all their products, and loops over
cheap cases that name the one that failed.
"""

import importlib.util
import itertools
from contextlib import contextmanager

import numpy as np
import pytest


def backends():
    """The array libraries installed, and the GPU where there is one."""
    if importlib.util.find_spec("torch") is None:
        return ["numpy"]
    import torch

    return ["numpy", "torch", *(["cuda"] if torch.cuda.is_available() else [])]


PRECISIONS = {"float64": np.float64, "float32": np.float32}


def pairwise(sizes):
    """Few combinations of options, as numbers of values, in which all pairs of values meet.

    Each next one is the first that holds the most pairs not met before.
    """
    rows = np.array(list(itertools.product(*map(range, sizes))))
    both = list(itertools.combinations(range(len(sizes)), 2))
    missing = {(i, j): np.ones((sizes[i], sizes[j]), bool) for i, j in both}
    chosen = []
    while any(pairs.any() for pairs in missing.values()):
        new = sum(pairs[rows[:, i], rows[:, j]].astype(int) for (i, j), pairs in missing.items())
        row = rows[new.argmax()]
        chosen.append(tuple(row.tolist()))
        for (i, j), pairs in missing.items():
            pairs[row[i], row[j]] = False
    return chosen


def pairs_of(**options):
    """Parametrise a test so that every two values of two options meet in some case.

    Faults depend on one option or on two that meet, nearly never on five at once. ``asarray=True``
    and ``dtype=True`` stand for all values of these fixtures.
    """
    fixtures = {"asarray": backends(), "dtype": list(PRECISIONS)}
    indirect = [name for name in fixtures if options.get(name) is True]
    options |= {name: fixtures[name] for name in indirect}
    values = [list(each) for each in options.values()]
    rows = [
        tuple(given[number] for given, number in zip(values, row, strict=True))
        for row in pairwise([len(given) for given in values])
    ]
    return pytest.mark.parametrize(tuple(options), rows, indirect=indirect)


@contextmanager
def case(**named):
    """Name this case in what fails within: for many cheap cases in one test."""
    try:
        yield
    except BaseException as error:
        error.add_note("in the case " + ", ".join(f"{key}={one!r}" for key, one in named.items()))
        raise
