"""The warning about a metric that maps the points to few places."""

from typing import Any

import numpy as np

from ..core.advice import Advice
from ..core.arrays import like, take, to_numpy
from ..core.warn import warn_user

# chosen by judgement: a metric has collapsed if it maps a sample of the rows to few places
USELESS_SAMPLE = 1000  # rows
SAME_PLACE = 1e-9  # distance of mapped rows, relative to the extent of all of them
FEW_PLACES = 0.1  # relative to the number of places in X


class CollapsedMetricWarning(Advice, UserWarning):
    """The optimum was found but the metric has collapsed: it maps all points, or nearly
    all, to the same place.
    """


def warn_if_collapsed(points: Any, L: Any, name: str, remedy: str) -> None:
    """Warn if the metric L L' that ``name`` learned is zero, or tells few of the points apart."""
    rows = np.linspace(0, len(points) - 1, min(len(points), USELESS_SAMPLE)).astype(int)
    sample = take(points, rows)
    rng = np.random.default_rng(0)
    view = like(rng.standard_normal((points.shape[1], 4)), L)  # shows which rows differ
    n_before, n_after = (_n_places(to_numpy(sample @ like(F, points))) for F in (view, L))
    # a sample of equal rows shows nothing about a metric that is not zero
    few = n_after <= max(1, FEW_PLACES * n_before) if n_before > 1 else not bool((L != 0).any())
    if not few:
        return
    fault = (
        "is zero: it calls all points the same"
        if n_after == 1
        else f"tells {n_after} places apart where {n_before} rows of X differ"
    )
    warn_user(
        CollapsedMetricWarning(
            f"The metric that {name} learned {fault}, so nearest neighbours are arbitrary. It is "
            "optimal, but the classes overlap too much for the program to separate them",
            {"method": f"try {remedy}", "": "keep the Euclidean distance"},
        )
    )


def _n_places(rows):
    """Number of distinct rows, with those nearer than `SAME_PLACE` counted as one."""
    rows = rows.astype(np.float64)
    rows = rows - rows.mean(0)
    extent = abs(rows).max(initial=0.0)
    return len(np.unique(np.round(rows / (SAME_PLACE * extent)), axis=0)) if extent > 0 else 1
