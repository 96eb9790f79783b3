"""Why a decision: the training rows that decided, and the columns that made them near.

A score is a sum over training rows, so naming those that decided takes the kernel values that the score
takes too and a search for the largest terms, block by block of new rows. Only the weights of targets
(``by="targets"``) take a decomposition of the kernel matrix.
"""

from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple

import numpy as np

from ..core.arrays import Array, to_numpy
from ..core.slices import slices
from .parts import Part
from .rule import WAYS_TO_EXPLAIN, Training, mapped

# numbers held at a time, 32 MB in float64: larger blocks are no faster
MAX_HELD = 1 << 22
# arrays of new rows times training rows that are held at a time
N_ARRAYS = 4


def check_explanation(name: str, n: int, by: str, least: int) -> None:
    """Refuse a number of rows, or a way to choose them, that cannot be explained by."""
    if not isinstance(n, Integral) or n < least:
        raise ValueError(
            f"{name}={n!r} must be an integer, at least {least}: the training rows to name."
        )
    if by not in WAYS_TO_EXPLAIN:
        raise ValueError(f"by={by!r} must be one of {', '.join(map(repr, WAYS_TO_EXPLAIN))}.")


class Reasons(NamedTuple):
    """The n most influential training rows of each new row, as numbers among those that are kept."""

    rows: np.ndarray  # (n_queries, n)
    shares: np.ndarray  # (n_queries, n)
    nearness: np.ndarray  # (n_queries, n, n_features)


def reasons(
    parts: Sequence[Part], kept: Training, X: Array, direction: np.ndarray, n: int, by: str
) -> Reasons:
    """Name the n rows among those ``kept`` that moved the scores of each scaled new row of X most in
    its ``direction`` (n_queries, n_targets), as `MetricDecision.explain` does.
    """
    known = to_numpy(kept.Z)
    n = min(n, len(known))
    width = N_ARRAYS * len(known) + n * known.shape[1]
    if by == "targets":
        # each block decomposes the kernel matrix of all rows, so few blocks are worth more memory
        blocks = slices(len(X), width)
    else:
        blocks = slices(len(X), width, MAX_HELD)
    found = [_of_block(parts, known, X[rows], direction[rows], n, by) for rows in blocks]
    return Reasons(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _of_block(
    parts: Sequence[Part], known: np.ndarray, X: Array, direction: np.ndarray, n: int, by: str
) -> Reasons:
    moved = np.zeros((len(X), len(known)))
    for part in parts:
        contributions = part.fitted.contributions(mapped(X, part.L), direction, by)
        moved[:, part.places] += part.weight * contributions
    sizes = abs(moved)
    top = largest(sizes, n)
    total = sizes.sum(1, keepdims=True)
    shares = np.take_along_axis(moved, top, axis=1) / np.where(total > 0, total, 1)
    difference = to_numpy(X)[:, None, :] - known[top]
    nearness = np.zeros(difference.shape)
    for part in parts:
        nearness += part.weight * part.nearness(difference, known)
    return Reasons(top, shares, nearness)


def largest(sizes: np.ndarray, n: int) -> np.ndarray:
    """The places of the n largest numbers of each row, the largest first, of equal ones the leading.

    Sorting whole rows would take longer than everything else that is done with them.
    """
    least = np.partition(sizes, sizes.shape[1] - n, axis=1)[:, -n][:, None]
    larger = sizes > least
    equal = sizes == least
    # of those that equal the n-th largest, only so many, from the left, complete the n
    n_equal = n - larger.sum(1, keepdims=True)
    chosen = larger | (equal & (np.cumsum(equal, axis=1) <= n_equal))
    places = np.nonzero(chosen)[1].reshape(len(sizes), n)
    order = np.argsort(-np.take_along_axis(sizes, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)
