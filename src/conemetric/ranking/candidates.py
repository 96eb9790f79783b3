"""Settings of a fit, their nDCG@10 on held-out queries, and the weights of a mix.

One rule chooses: of the candidates whose gain is *sure*, above 0 in a one-sided t test of
CONFIDENCE over the queries, the one with the largest gain less its standard error; the simplest
where none is. Gains are paired, query by query.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

import numpy as np
from scipy.stats import t as student

DEPTH = 10  # of the nDCG that chooses and scores
# weights of a column, relative to the ratio of spreads, by which a mix is tuned
MIX_GRID = tuple(2.0 ** np.arange(-4, 4))
FINER = (2**-0.5, 2**0.5)  # of the best on that grid
SWEEPS = 2  # over the columns, where there are several
CONFIDENCE = 0.95  # of a sure gain


@dataclass(frozen=True)
class Setting:
    """Parameters of one fit. Scores are ``embedding`` times those of the embedding plus
    ``weights`` times the columns in this ``normalization``; with C > 0 the program starts
    there, and C = 0 changes nothing.
    """

    C: float
    margin: float
    n_hard: int
    n_random: int
    normalization: str | None = None
    weights: tuple[float, ...] = ()
    embedding: float = 1.0

    @property
    def kind(self) -> "Setting":
        """What the comparisons of a setting depend on."""
        return replace(self, C=0.0, margin=0.0)

    def distance(self, other: "Setting") -> float:
        """How far two settings of one kind are from each other on the path of C."""
        return float(abs(np.log(self.C / other.C)) + abs(np.log(self.margin / other.margin)))


@dataclass(frozen=True)
class Candidate:
    """A setting and its nDCG@10 on held-out queries."""

    setting: Setting
    mean: float
    gain: float  # the mean difference from the unchanged embedding, query by query
    standard_error: float  # of the gain
    values: np.ndarray = field(repr=False)  # of each query

    @classmethod
    def from_values(cls, setting: Setting, values: np.ndarray, unchanged: np.ndarray) -> Self:
        """Compare ``values`` with those of the ``unchanged`` embedding."""
        gain = values - unchanged
        error = float(gain.std(ddof=1)) / len(gain) ** 0.5
        return cls(setting, float(values.mean()), float(gain.mean()), error, values)

    @property
    def sure_gain(self) -> float:
        """The gain less one standard error: 0 for the unchanged embedding."""
        return self.gain - self.standard_error

    @property
    def is_sure(self) -> bool:
        """Whether the gain is sure (`CONFIDENCE`)."""
        errors = float(student.ppf(CONFIDENCE, max(len(self.values) - 1, 1)))
        return self.gain > errors * self.standard_error

    def beats(self, other: "Candidate") -> bool:
        """Whether it is significantly better than another candidate on the same held-out queries."""
        return Candidate.from_values(self.setting, self.values, other.values).is_sure


def best_candidate(candidates: Sequence[Candidate]) -> Candidate:
    """The one with the largest gain less its standard error; the first of equal ones."""
    return max(candidates, key=lambda candidate: candidate.sure_gain)


def crossed_mix(
    values_of: Callable[[np.ndarray], np.ndarray],
    sizes: np.ndarray,
    weights: np.ndarray,
    folds: Sequence[np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Weights by `tuned_mix`, and values of every query with the weights tuned on the queries of
    the other ``folds`` (masks; without any, those of all queries).
    """
    # folds try many of the same weights
    remembered = cache(lambda tried: values_of(np.array(tried)))

    def tuned_on(queries):
        return tuned_mix(lambda tried: remembered(tuple(tried))[queries], sizes, weights)

    tuned, values = tuned_on(slice(None))
    crossed = values.copy()
    for fold in folds:
        tuned_on_others, _ = tuned_on(~fold)
        crossed[fold] = remembered(tuple(tuned_on_others))[fold]
    return tuned, crossed


def tuned_mix(
    values_of: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the columns that maximise the mean of ``values_of`` them, and the values
    there, from given ``weights`` on: a grid around the ``sizes``, one column at a time (none
    whose size is 0), the most useful first, then between the points of the grid.
    """

    def with_(c, weight):
        """The weights but for that of one column, and the values there."""
        changed = np.where(np.arange(len(weights)) == c, weight, weights)
        return changed, values_of(changed)

    def use_of(c):
        _, values = with_(c, sizes[c])
        return values.mean()

    best = values_of(weights)
    columns = np.flatnonzero(sizes).tolist()
    if len(columns) > 1:  # whatever the order in which they were given
        columns.sort(key=lambda c: -use_of(c))
    n_sweeps = SWEEPS if len(sizes) > 1 else 1
    grids = [(0.0, *MIX_GRID)] * n_sweeps
    for grid in (*grids, FINER):
        for c in columns:
            # the finer grid is around what the others have found
            middle = weights[c] if grid is FINER else sizes[c]
            for t in grid:
                changed, values = with_(c, t * middle)
                # of equal mixes the first stays: a weight of 0 is tried before the others
                if values.mean() > best.mean():
                    weights = changed
                    best = values
    return weights, best
