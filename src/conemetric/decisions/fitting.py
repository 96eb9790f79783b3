"""The chosen parts fitted to all rows, and the rows that they need afterwards."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core import arrays
from ..core.progress import emit
from .choice import PlannedPart
from .parts import Part
from .rule import Training


class FittedParts(NamedTuple):
    """Parts fitted to rows, and which of these rows they keep."""

    parts: list[Part]
    kept: np.ndarray  # numbers of the rows, increasing


def fit_parts(
    planned: Sequence[PlannedPart],
    rows: Training,
    landmarks: np.ndarray,
) -> FittedParts:
    """Fit the rules of the parts to all rows, those that cannot keep many with a sum over the
    ``landmarks``.
    """
    every = np.arange(len(rows.Y))
    keeps_all = any(part.trial.rule.many for part in planned)
    # one set of rows is stored for all parts; each knows its own by their places in it
    kept = every if keeps_all else landmarks
    parts = []
    for trial, weight, L in planned:
        if L is not None:
            L = np.ascontiguousarray(arrays.to_numpy(L))
        emit("stage", stage=f"learning from all rows, {trial}")
        fitted = trial.rule.fit(rows.mapped(L), landmarks)
        kept_by_rule = every if trial.rule.many else landmarks
        parts.append(Part(trial, weight, fitted, L, np.searchsorted(kept, kept_by_rule)))
    return FittedParts(parts, kept)
