"""Columns that give the label away: one that alone, or two that together, predict held-out rows almost
perfectly, where all others are far worse. Such a column is mostly known only after the label, or says the
same in other words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

# what is left of the error of always predicting the most common label, or of the variance
PERFECT = 0.01  # at most, by a column that gives the label away: honest ones leave more (odor: 3 %)
FAR_WORSE = 0.1  # at least, by every other column
# rows with another label than the most common one: so many are not told apart by chance
FEWEST_OTHERS = 60
FEWEST_NUMBERS = 100  # rows of a quantity
MOST_ROWS = 4000  # looked at, drawn at random
MOST_VALUES = 1_000_000  # rows times columns looked at: a fraction of a second
FEWEST_ROWS = 300  # where there are many columns
MOST_COLUMNS = 1000  # of more none is looked at alone
LEAVES = 64  # of a tree of one column
MOST_NAMED = 4  # columns; if more predict the label almost perfectly, it is that easy
MOST_PAIRED = 8  # columns, the best alone, whose differences are looked at
MOST_RANKED = 60  # columns of numbers among which these are found
MOST_UNSEEN = 0.1  # share of rows whose category the other half does not have; of more it is wrong
SPLITS = 2  # halves of the rows, each of which judges what was learned from the other


@dataclass(frozen=True)
class Giveaway:
    """Columns that give the label away, and what is left of the error without any column."""

    columns: tuple[str, ...]
    together: bool  # whether it takes both of two columns; else each does alone
    error: float  # held-out; of a quantity 1 - R²
    quantity: bool

    def in_words(self, label: str | None, remedy: str) -> str:
        """What was found, and a remedy."""
        target = "the label"
        if label is not None:
            target = f"'{label}'"
        if self.quantity:
            figure = f"held-out R² {1 - self.error:.3f}"
            bound = "at least"
        else:
            figure = f"held-out error {self.error:.1%}"
            bound = "at most"
        *first, last = map(repr, self.columns)
        if not first:
            return f"{last} alone predicts {target} ({figure}); if it is known only afterwards, {remedy}."
        names = f"{', '.join(first)} and {last}"
        if self.together:
            finding = f"{names} together predict {target} ({figure})"
        else:
            finding = f"{names} each predict {target} alone ({figure} {bound})"
        return f"{finding}; if they are known only afterwards, {remedy}."


def find_giveaway(X: Any, names: Sequence[str], y: np.ndarray, quantity: bool) -> Giveaway | None:
    """The columns of rows (an array, or a Polars frame) that give their label away, if any."""
    # beside a single column there are no others that could be far worse
    if len(names) > MOST_COLUMNS or len(names) != X.shape[1] or len(names) < 2:
        return None
    n = min(len(y), MOST_ROWS, max(FEWEST_ROWS, MOST_VALUES // len(names)))
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    kind = _Quantity if quantity else _Classes
    label = kind(y[rows])
    if not label.worth_looking:
        return None
    columns = [_values(X, place, rows) for place in range(len(names))]
    left = {}  # what a column leaves open, by its place
    for place, column in enumerate(columns):
        if label.may_give_away(column):
            left[place] = label.left_by(column)
    perfect = [place for place in left if left[place] <= PERFECT]
    if not perfect:
        return _pair(label, columns, names)
    if len(perfect) > MOST_NAMED or not _others_are_far_worse(label, columns, perfect):
        return None
    worst = max(left[place] for place in perfect)
    named = tuple(names[place] for place in perfect)
    return Giveaway(named, False, label.error_of(worst), quantity)


def _pair(label, columns, names):
    """Two columns of numbers whose difference, or weighted sum, gives the label away."""
    numbers = [place for place, column in enumerate(columns) if column.dtype.kind == "f"]
    for one, two, combined in label.combinations_of([columns[place] for place in numbers]):
        pair = [numbers[one], numbers[two]]
        if not label.may_give_away(combined):
            continue
        left = label.left_by(combined)
        if left <= PERFECT and _others_are_far_worse(label, columns, pair):
            named = tuple(names[place] for place in pair)
            return Giveaway(named, True, label.error_of(left), isinstance(label, _Quantity))
    return None


def _others_are_far_worse(label, columns, excepted):
    others = [column for place, column in enumerate(columns) if place not in excepted]
    return bool(others) and all(label.left_by(column) >= FAR_WORSE for column in others)


def _values(X, place, rows):
    """A column as floats, or as codes of its categories."""
    if isinstance(X, np.ndarray):
        return X[rows, place].astype(float)
    column = X[:, place][rows]
    if column.dtype.is_numeric() or column.dtype.is_temporal():
        numbers = column.to_physical().cast(float, strict=False)
        return numbers.fill_null(np.nan).to_numpy()
    words = column.cast(str).fill_null("").to_numpy().astype(object)
    _, codes = np.unique(words, return_inverse=True)
    return codes


def _halves(n):
    """Row numbers to learn from and to judge on; the rows are in random order."""
    half = n // SPLITS
    first = np.arange(half)
    second = np.arange(half, n)
    return ((first, second), (second, first))


class _Classes:
    """Labels of classes."""

    def __init__(self, y: np.ndarray) -> None:
        self.codes = np.unique(y, return_inverse=True)[1]
        counts = np.bincount(self.codes)
        self.n = len(y)
        self.n_classes = len(counts)
        self.n_others = int(self.n - counts.max())

    @property
    def worth_looking(self) -> bool:
        return self.n_others >= FEWEST_OTHERS and self.n_classes <= self.n / 10

    def error_of(self, left: float) -> float:
        return left * self.n_others / self.n

    def may_give_away(self, column: np.ndarray) -> bool:
        """Whether few pieces of the sorted numbers, or the categories, have one class each."""
        if column.dtype.kind != "f":
            return True
        order = np.lexsort((self.codes, column))  # equal numbers by class: as few changes as can be
        changes = int((np.diff(self.codes[order]) != 0).sum())
        if changes > LEAVES + 2 * PERFECT * self.n_others:
            return False
        # in some pieces of the sorted numbers, by the most common class of each
        pieces = np.unique(column, return_inverse=True)[1]
        if pieces.max() >= LEAVES:
            return True
        counts = np.zeros((pieces.max() + 1, self.n_classes), int)
        np.add.at(counts, (pieces, self.codes), 1)
        return self.n - int(counts.max(axis=1).sum()) <= PERFECT * self.n_others

    def left_by(self, column: np.ndarray) -> float:
        """Held-out error by a column, relative to that of the most common class."""
        wrong = unseen = 0
        for learn, judge in _halves(self.n):
            if column.dtype.kind == "f":
                tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES, random_state=0)
                tree.fit(column[learn, None], self.codes[learn])
                predicted = tree.predict(column[judge, None])
            else:
                predicted = self._by_category(column, learn)[column[judge]]
            wrong += int((predicted != self.codes[judge]).sum())
            unseen += int((predicted < 0).sum())
        if unseen > MOST_UNSEEN * self.n:
            return wrong / self.n_others
        return (wrong - unseen) / (self.n_others * (1 - unseen / self.n))

    def _by_category(self, column, learn):
        """The most common class of each category; -1 of one without rows."""
        counts = np.zeros((column.max() + 1, self.n_classes), int)
        np.add.at(counts, (column[learn], self.codes[learn]), 1)
        return np.where(counts.any(axis=1), counts.argmax(axis=1), -1)

    def combinations_of(self, columns: list[np.ndarray]) -> Any:
        """The differences of the columns that say most alone."""
        if not 2 <= len(columns) <= MOST_RANKED:
            return
        said = np.argsort([self.left_by(column) for column in columns], kind="stable")
        for one, two in combinations(said[:MOST_PAIRED].tolist(), 2):
            yield one, two, columns[one] - columns[two]


class _Quantity:
    """Labels that are a quantity."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = np.asarray(y, float)
        self.n = len(y)
        self.variance = float(np.var(y))

    @property
    def worth_looking(self) -> bool:
        return self.n >= FEWEST_NUMBERS and self.variance > 0

    def error_of(self, left: float) -> float:
        return left

    def may_give_away(self, column: np.ndarray) -> bool:
        """Whether neighbours in the column are near in the label."""
        if column.dtype.kind != "f":
            return True
        order = np.argsort(column, kind="stable")
        between_neighbours = float((np.diff(self.y[order]) ** 2).mean()) / 2
        return (
            between_neighbours <= FAR_WORSE * self.variance or self._left_by_line(column) <= PERFECT
        )

    def left_by(self, column: np.ndarray) -> float:
        """Share of the variance of held-out rows that a column leaves, by a line or by pieces; of that of
        their ranks if that is more, since a few large values may be all of a variance.
        """
        return max(self._left_of_values(column), self._ranked._left_of_values(column))

    @cached_property
    def _ranked(self) -> "_Quantity":
        return _Quantity(rankdata(self.y))

    def _left_of_values(self, column: np.ndarray) -> float:
        if column.dtype.kind != "f":
            return self._left(column, self._by_category)
        return min(self._left_by_line(column), self._left(column, _by_tree))

    def _left_by_line(self, column):
        known = np.isfinite(column)
        if known.mean() < 1 - PERFECT or not np.ptp(column[known]) > 0:
            return 1.0
        r = np.corrcoef(column[known], self.y[known])[0, 1]
        return float(1 - r**2)

    def _left(self, column: np.ndarray, predict: Callable) -> float:
        squared = 0.0
        for learn, judge in _halves(self.n):
            predicted = predict(column[learn], self.y[learn], column[judge])
            squared += float(((predicted - self.y[judge]) ** 2).sum())
        return squared / (self.n * self.variance)

    @staticmethod
    def _by_category(known, y, column):
        sums = np.bincount(known, y, minlength=max(known.max(), column.max()) + 1)
        n_rows = np.bincount(known, minlength=len(sums))
        return np.where(n_rows > 0, sums / np.maximum(n_rows, 1), y.mean())[column]

    def combinations_of(self, columns: list[np.ndarray]) -> Any:
        """The weighted sums of two columns that leave almost nothing."""
        complete = [place for place, column in enumerate(columns) if np.isfinite(column).all()]
        varying = [place for place in complete if np.ptp(columns[place]) > 0]
        if len(varying) < 2:
            return
        r = np.corrcoef(np.vstack([*(columns[place] for place in varying), self.y]))
        own = r[-1, :-1]  # of each column with the label
        between = r[:-1, :-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            # R² of all pairs of columns at once, from their correlations
            # with the label and each other
            explained = own[:, None] ** 2 + own**2 - 2 * own[:, None] * own * between
            explained = explained / (1 - between**2)
        # two copies of one column explain no more than one of them, and divide by zero
        explained = np.where(np.abs(between) < 1 - 1e-9, explained, 0.0)
        best = np.unravel_index(int(np.triu(explained, 1).argmax()), explained.shape)
        one = varying[best[0]]
        two = varying[best[1]]
        pair = np.column_stack([columns[one], columns[two], np.ones(self.n)])
        weights = np.linalg.lstsq(pair, self.y, rcond=None)[0]
        yield one, two, pair @ weights


def _by_tree(known, y, column):
    """Predictions of a tree of one column."""
    tree = DecisionTreeRegressor(max_leaf_nodes=LEAVES, random_state=0)
    return tree.fit(known[:, None], y).predict(column[:, None])
