"""Optima of the conic solver, computed once and kept in ``optima.json`` by what was solved.

What is not there is computed. One in `AGAIN` of what is there is computed again and must
agree; the date decides which, so that each has its turn within `AGAIN` days.
``python -m pytest -n 0 --keep-optima`` adds what is missing.
"""

import hashlib
import inspect
import json
import warnings
from datetime import date
from functools import wraps
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("optima.json")
AGAIN = 20
DIGITS = 11  # of a number; the last ones differ from processor to processor
new = {}


def in_file():
    return json.loads(FILE.read_text()) if FILE.exists() else {}


known = in_file()


def kept(solve):
    """``solve`` with a memory. A value that is not finite, or came with a warning, is not kept."""

    @wraps(solve)
    def optimum(*arguments, **options):
        key = name(solve, arguments, options)
        if key in known and not its_turn(key):
            return known[key]
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            value = solve(*arguments, **options)
        for doubt in doubts:
            warnings.warn(doubt.message, stacklevel=2)
        if key in known:
            assert_agree(value, known[key])
        elif value is not None and np.isfinite(value).all() and not doubts:
            new[key] = value
        return value

    return optimum


def assert_agree(value, expected):
    """The optimum agrees; what else is measured at the optimal point is known to fewer digits."""
    (optimum, *others), (kept_optimum, *kept_others) = np.atleast_1d(value), np.atleast_1d(expected)
    np.testing.assert_allclose(optimum, kept_optimum, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(others, kept_others, rtol=1e-3, atol=1e-4)


def its_turn(key):
    return int(key, 16) % AGAIN == date.today().toordinal() % AGAIN


def name(solve, arguments, options):
    bound = inspect.signature(solve).bind(*arguments, **options)
    bound.apply_defaults()
    text = json.dumps([solve.__name__, *map(in_digits, bound.arguments.values())])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def in_digits(value):
    """Numbers as whole ones, in units of the largest."""
    if value is None or isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "bi":
        return array.tolist()
    size = abs(array[np.isfinite(array)]).max(initial=0.0) or 1.0
    parts = np.rint(np.clip(array / size, -2, 2) * 10.0**DIGITS).astype(np.int64)
    return [f"{size:.{DIGITS}g}", parts.tolist()]


def keep_new():
    FILE.write_text(json.dumps(in_file() | new, indent=0, sort_keys=True) + "\n")
