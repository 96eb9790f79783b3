"""Which cases a test runs: pairs of options in the place of all their products, parts of them that
take turns, and loops over cheap cases that name the one that failed.
"""

import importlib.util
import inspect
import itertools
from contextlib import contextmanager
from zlib import crc32

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


def alike_parts(cases, most):
    """The values of a dictionary in parts of at most ``most``, each with many values of all options.

    Keys are the cases' names in pytest, ``test[value-other]``. A part begins anywhere, and goes on
    with the case that has the most values that the part does not have yet.
    """
    n_parts = -(-len(cases) // most)
    if n_parts <= 1:
        return [list(cases.values())]
    left = {  # in an order that depends on names only
        name: set(enumerate(name.partition("[")[2].split("-")))
        for name in sorted(cases, key=lambda name: crc32(name.encode()))
    }
    parts = []
    for number in range(n_parts):
        size = (len(cases) + number) // n_parts
        part, seen = [], set()
        for _ in range(size):
            chosen = max(left, key=lambda name: len(left[name] - seen))
            seen |= left.pop(chosen)
            part.append(cases[chosen])
        parts.append(part)
    return parts


def whose_turn(cases, most, number, n_turns=1):
    """The part of the cases that runs on the day of this number; none at all but one day in n_turns."""
    parts = alike_parts(cases, most)
    parts += [[]] * ((n_turns - 1) * len(parts))
    return parts[number % len(parts)]


def first_of(names, values):
    """Parametrise a slow test by the first of some values, and in the slow run by the others."""
    first, *others = values
    several = not isinstance(names, str)
    later = [
        pytest.param(*(other if several else (other,)), marks=pytest.mark.slow) for other in others
    ]
    return pytest.mark.parametrize(names, [first, *later])


def each(names, values):
    """Run a cheap test with each of some values, in one test that names those that failed it.

    As a case of its own, each costs more than what it tests.
    """
    names = [names] if isinstance(names, str) else list(names)

    def decorate(test):
        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in names]

        def loop(**fixtures):
            for value in values:
                given = dict(zip(names, value if len(names) > 1 else [value], strict=True))
                with case(**given):
                    test(**fixtures, **given)

        loop.__name__, loop.__doc__, loop.__module__ = test.__name__, test.__doc__, test.__module__
        loop.__signature__ = signature.replace(parameters=others)
        loop.pytestmark = getattr(test, "pytestmark", [])
        return loop

    return decorate


@contextmanager
def case(**named):
    """Name this case in what fails within: for many cheap cases in one test."""
    try:
        yield
    except BaseException as error:
        error.add_note("in the case " + ", ".join(f"{key}={one!r}" for key, one in named.items()))
        raise
