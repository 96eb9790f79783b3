"""What a study works on, rows and their supervision, some of it held out; and judgements of the
held-out items one by one.
"""

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import binomtest
from sklearn.pipeline import make_pipeline

from ...evaluation.statistics import mcnemar, mean_interval, paired_difference
from ...tables import TableEncoder
from .options import Options


@dataclass(frozen=True)
class Judgement:
    """Held-out items judged one by one."""

    wrong: np.ndarray  # whether, or by how much, for each held-out item
    detail: dict[str, Any] = field(default_factory=dict)  # predictions, or distances and threshold

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
        """McNemar's exact test of the change to another judgement of the same items."""
        return mcnemar(self.wrong, after.wrong)


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
        """A randomisation test of the change in squared error."""
        return paired_difference(self.wrong, after.wrong).p_value


def no_items() -> np.ndarray:
    return np.zeros(0, int)


@dataclass(frozen=True)
class Task(ABC):
    """Rows and their supervision, in which `split` holds some items (rows, pairs, triplets) out."""

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

    @property
    def n_rows(self) -> int:
        return len(self.X if self.raw is None else self.raw)

    @property
    def n_features(self) -> int:
        return self.X.shape[1]

    def original(self, rows: np.ndarray) -> np.ndarray:
        """Row numbers in the original data."""
        return rows if self.used is None else self.used[rows]

    @abstractmethod
    def split(self, options: Options, rng: np.random.Generator) -> Self:
        """Hold items out."""

    @abstractmethod
    def whole(self, options: Options, rng: np.random.Generator) -> Self:
        """All items to learn from, none held out."""

    def fingerprint(self) -> dict[str, Any]:
        """What tells later whether items were learned from, as JSON values."""
        return {}

    @abstractmethod
    def training_rows(self) -> Any:
        """The rows to fit the preprocessing on."""

    @abstractmethod
    def prepared(self, prepare: Any) -> Self:
        """The task with its rows transformed by a fitted preprocessing."""

    @abstractmethod
    def fit(self, estimator: Any) -> None:
        """Fit an estimator to the training items."""

    @abstractmethod
    def judge(self, estimator: Any, options: Options) -> Judgement:
        """Judge a fitted estimator (None: the Euclidean distance) on the held-out items."""

    @abstractmethod
    def validation(self, most: int, rng: np.random.Generator) -> Self:
        """At most ``most`` of the training items, split again, to judge choices on."""

    def quick_error(self, steps: list, options: Options, most: int) -> float:
        """Euclidean error after ``steps`` within at most ``most`` of the training items."""
        trial = self.validation(most, np.random.default_rng(options.seed))
        prepare = make_pipeline(*steps, "passthrough").fit(trial.training_rows())
        return trial.prepared(prepare).judge(None, options).rate


def table_encoder(X: Any) -> TableEncoder | None:
    """The unfitted encoder of a table with words, dates or gaps; None for numbers alone."""
    if isinstance(X, np.ndarray):
        return TableEncoder(sparse_output=False) if np.isnan(X).any() else None
    return TableEncoder(categorical_features=word_columns(X), sparse_output=False)


def word_columns(X: Any) -> list[str]:
    """The columns of a Polars frame that hold words."""
    return [
        name for name, kind in X.schema.items() if not (kind.is_numeric() or kind.is_temporal())
    ]


def data_id(task: Task) -> str:
    """Twelve hexadecimal digits that change with any number of a task's rows or supervision."""
    return digits_of(*(getattr(task, name) for name in ("X", *task.supervision)))


def digits_of(*tables: Any) -> str:
    """Twelve hexadecimal digits that change with any entry of arrays or Polars frames."""
    digest = hashlib.sha256()
    for table in tables:
        frame = [] if isinstance(table, np.ndarray) else [column.to_numpy() for column in table]
        for values in frame or [table]:
            values = np.ascontiguousarray(values)
            values = values.astype(str) if values.dtype.kind == "O" else values
            digest.update(f"{values.dtype.str}{values.shape}".encode())
            digest.update(values.tobytes())
    return digest.hexdigest()[:12]
