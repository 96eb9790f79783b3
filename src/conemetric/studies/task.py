"""Rows and their supervision, some of it held out, and judgements of the held-out items."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binomtest

from ..evaluation.statistics import mcnemar, mean_interval, randomisation_test
from ..tables import TableEncoder
from ..tables.recognition import recognise
from ..tables.spelling import Spelling


@dataclass(frozen=True)
class Judgement:
    """Held-out items judged one by one."""

    wrong: np.ndarray  # whether, or by how much, for each held-out item
    detail: dict[str, Any] = field(default_factory=dict)  # predictions, or distances and threshold
    # of the items, whose errors within a group depend on each other
    groups: np.ndarray | None = None

    @property
    def n(self) -> int:
        return len(self.wrong)

    @property
    def rate(self) -> float:
        """Share of wrong items."""
        return float(self.wrong.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % confidence interval of the rate."""
        low, high = binomtest(int(self.wrong.sum()), self.n).proportion_ci(method="wilson")
        return float(low), float(high)

    def row(self) -> dict[str, float]:
        """Error and interval for a table."""
        low, high = self.interval
        return {"error": self.rate, "low": low, "high": high, "held_out": self.n}

    def p_value(self, after: "Judgement") -> float:
        """McNemar's exact test of the change to another judgement of the same items; of groups, a
        randomisation test of the change in each group.
        """
        if self.groups is not None:
            return self._p_value_by_group(after)
        return mcnemar(self.wrong, after.wrong)

    def _p_value_by_group(self, after):
        change = after.wrong.astype(float) - self.wrong
        _, group = np.unique(np.asarray(self.groups), return_inverse=True)
        return randomisation_test(np.bincount(group, weights=change))


@dataclass(frozen=True)
class Deviation(Judgement):
    """Predictions of held-out numbers: ``wrong`` holds the squared errors over the variance of
    the numbers, so that ``rate`` is the share of variance left unexplained, 1 - R^2.
    """

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the rate."""
        low, high = mean_interval(self.wrong)
        return max(0.0, low), high

    def row(self) -> dict[str, float]:
        return {**super().row(), "r2": 1 - self.rate, "rmse": self.detail["rmse"]}

    def p_value(self, after: "Judgement") -> float:
        """A randomisation test of the change in squared error, in each group if there are any."""
        if self.groups is not None:
            return self._p_value_by_group(after)
        return randomisation_test(after.wrong - self.wrong)


def no_items() -> np.ndarray:
    return np.zeros(0, int)


@dataclass(frozen=True)
class Task(ABC):
    """Rows and their supervision. Every kind can

    - hold some of its items (rows, pairs, triplets) out, ``split``, or take all of them, ``whole``;
    - have preprocessing ``fitted`` to its ``training_rows``, and go through it, ``prepared``;
    - ``fit`` an estimator to the training items, and ``judge`` it on the held-out ones (None: the
      Euclidean distance); ``validation`` splits some training items again, to judge choices on.
    """

    kind: ClassVar[str]
    items: ClassVar[str]  # what is held out, in words
    supervision: ClassVar[tuple[str, ...]]  # fields that hold it
    measure: ClassVar[str] = "error"

    X: Any
    train: np.ndarray = field(default_factory=no_items, kw_only=True)  # numbers of the items
    test: np.ndarray = field(default_factory=no_items, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    raw: Any = field(default=None, kw_only=True)  # all original rows, once X holds prepared ones
    # the numbers of the prepared rows among them, if some are left out
    used: np.ndarray | None = field(default=None, kw_only=True)
    label: str | None = field(default=None, kw_only=True)  # the name of the column to predict
    # a sentence about columns that give the label away, if there are such
    giveaway: str = field(default="", kw_only=True)
    # how words spelled the values of columns in the file, for encoders that read new rows
    kinds: Mapping[str, Spelling] = field(default_factory=dict, kw_only=True)
    # a number for each row of X: rows of one group are learned from or held out together
    groups: np.ndarray | None = field(default=None, kw_only=True)

    @property
    def goal(self) -> str:
        """What is learned, in words; empty if nothing is to be predicted."""
        return ""

    @property
    def n_rows(self) -> int:
        return len(self.X if self.raw is None else self.raw)

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    @property
    def n_shared(self) -> int:
        """How many rows the held-out items share with those that are learned from."""
        return 0

    @property
    def sharing(self) -> str:
        """That in words, after "held-out items", where it needs saying."""
        return ""

    @abstractmethod
    def protocol(self, share: float) -> str:
        """How items are held out, for the report."""

    def fitted(self: Any, prepare: Any) -> Any:
        return prepare.fit(self.training_rows())

    def original(self, rows: np.ndarray) -> np.ndarray:
        """Row numbers in the original data."""
        if self.used is None:
            return rows
        return self.used[rows]

    def fingerprint(self) -> dict[str, Any]:
        """What tells later whether items were learned from, as JSON values."""
        return {}


def table_encoder(X: Any, kinds: Mapping[str, Spelling] | None = None) -> TableEncoder | None:
    """The unfitted encoder of a table with words, dates or missing values; None for numbers alone."""
    if isinstance(X, np.ndarray):
        if not np.isnan(X).any():
            return None
        return TableEncoder(sparse_output=False)
    spelled: dict[str | int, str | Spelling] = {}
    spelled.update(kinds or {})
    return TableEncoder(categorical_features=word_columns(X), kinds=spelled, sparse_output=False)


def word_columns(X: Any) -> list[str]:
    """The columns of a Polars frame that hold words; text that spells numbers or dates is none."""
    found = []
    for name, dtype in X.schema.items():
        if str(dtype) == "Boolean" or dtype.is_numeric() or dtype.is_temporal():
            continue
        if str(dtype) != "String" or recognise(X[name].drop_nulls().unique().to_list()) is None:
            found.append(name)
    return found


def data_id(task: Task) -> str:
    """Twelve hexadecimal digits that change with any number of a task's rows or supervision."""
    return digits_of(*(getattr(task, name) for name in ("X", *task.supervision)))


def digits_of(*tables: Any) -> str:
    """Twelve hexadecimal digits that change with any entry of arrays or Polars frames."""
    digest = hashlib.sha256()
    for table in tables:
        parts = [table]
        if not isinstance(table, np.ndarray):
            parts = [column.to_numpy() for column in table]
        for values in parts:
            values = np.ascontiguousarray(values)
            if values.dtype.kind == "O":  # whose bytes are addresses
                values = values.astype(str)
            digest.update(f"{values.dtype.str}{values.shape}".encode())
            digest.update(values.tobytes())
    return digest.hexdigest()[:12]
