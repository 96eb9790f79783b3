"""Which rows are held out where some must stay together: the rows of a group, and, of pairs and
triplets, all rows of a judging one, none of which may be learned from.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupShuffleSplit, StratifiedGroupKFold

from ..core.warn import collected_warnings

# folds of groups, of which as many are held out as make the share: three of ten for 0.3
MOST_FOLDS = 10


def groups_of(links: np.ndarray, n: int) -> np.ndarray:
    """A number for each of n rows: equal for rows that pairs (m, 2) link, if over others."""
    graph = coo_array((np.ones(len(links)), (links[:, 0], links[:, 1])), (n, n))
    return connected_components(graph, directed=False)[1]


def rows_of_groups(
    groups: np.ndarray, classes: np.ndarray | None, share: float, rng: np.random.Generator
) -> np.ndarray:
    """The rows of some groups, about this share of all rows, by scikit-learn's splitters; with the
    classes in proportion as far as whole groups allow, if there are any.
    """
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            "--groups: all rows are of one group; it takes two to hold one out. Name a column whose "
            "values say which rows belong together."
        )
    seed = int(rng.integers(2**31 - 1))
    rows = np.zeros(len(groups))
    if classes is None:
        shuffled = GroupShuffleSplit(1, test_size=share, random_state=seed)
        return next(shuffled.split(rows, groups=groups))[1]
    _, code, counts = np.unique(classes, return_inverse=True, return_counts=True)
    n_folds = int(min(MOST_FOLDS, n_groups, max(2, counts.max())))
    folds = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    n_held_out = int(np.clip(round(share * n_folds), 1, n_folds - 1))
    with collected_warnings():  # of classes with fewer rows than folds
        parts = [test for _, test in folds.split(rows, code, groups)]
    return np.sort(np.concatenate(parts[:n_held_out]))


class Division(NamedTuple):
    """The numbers of pairs or triplets to learn from, and of those to judge on."""

    train: np.ndarray
    test: np.ndarray


def divided(
    indices: np.ndarray, groups: np.ndarray, share: float, rng: np.random.Generator
) -> Division:
    """Hold out about this share of the groups of rows: pairs (m, 2), or triplets (m, 3), within the
    others are learned from, those within the held-out ones judge, and those that connect the two
    are in neither.
    """
    names, code = np.unique(groups[indices], return_inverse=True)
    code = code.reshape(indices.shape)
    inside = _held_out(code, len(names), share, rng)[code]
    return Division(np.flatnonzero(~inside.any(axis=1)), np.flatnonzero(inside.all(axis=1)))


def _held_out(code, n, share, rng):
    """Which of n groups are held out. Those that are connected are held out together where they are
    few, so that nothing connects the two sides; of a larger part, a share is drawn.
    """
    links = np.concatenate([code[:, [0, j]] for j in range(1, code.shape[1])])
    part = groups_of(links, n)
    sizes = np.bincount(part)
    is_small = sizes <= share * n
    held_out = np.zeros(n, bool)
    for large in np.flatnonzero(~is_small):
        members = rng.permutation(np.flatnonzero(part == large))
        held_out[members[: round(share * len(members))]] = True
    small = rng.permutation(np.flatnonzero(is_small))
    # a part is held out if its middle is within the share: neither too few nor too many on average
    reached = np.cumsum(sizes[small]) - sizes[small] / 2
    wanted = share * sizes[small].sum()
    held_out[np.isin(part, small[reached <= wanted])] = True
    return held_out


def in_proportion(
    items: np.ndarray, similar: np.ndarray, share: float, rng: np.random.Generator
) -> np.ndarray:
    """As many of these pairs as have this share of similar ones; ``similar`` says which of all are."""
    same = rng.permutation(items[similar[items]])
    different = rng.permutation(items[~similar[items]])
    n = min(len(same) / share, len(different) / (1 - share))
    kept = [same[: round(share * n)], different[: round((1 - share) * n)]]
    return np.sort(np.concatenate(kept))
