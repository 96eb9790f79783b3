"""Supervision by labels, classes or a quantity: split, fitted and judged."""

import statistics
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from ..core.wording import figure, shortened
from ..evaluation.knn import knn_predict, nearest_labels
from ..neighbours.ties import labelled_keys
from .holding_out import rows_of_groups
from .methods import find
from .options import Options
from .task import Deviation, Judgement, Task, no_items

MIN_ROWS = 10  # with fewer, a held-out share is a row or two
VALIDATION_SHARE = 0.3  # of the training items, the default of Options.test_size
LONGEST_LABEL = 40  # characters of a label in a table and in a sentence


class Constant(NamedTuple):
    """A prediction that is the same for every row."""

    prediction: Any
    name: str  # in a table
    words: str  # in a sentence


@dataclass(frozen=True)
class Labelled(Task):
    """Rows with class labels, judged by k-NN on held-out rows."""

    kind = "labels"
    items = "rows"
    supervision = ("y",)
    drawn: ClassVar[str] = "drawn class by class"

    y: np.ndarray  # labels of any type
    # rows the metric is learned from; all of ``train`` vote
    learn: np.ndarray = field(default_factory=no_items, kw_only=True)
    target: str = field(default="classes", kw_only=True)  # what the estimator is to take y for

    @cached_property
    def classes(self) -> np.ndarray:
        return np.unique(self.y)

    @property
    def goal(self) -> str:
        named = "" if self.label is None else f"{self.label}, "
        return f"learning to predict {named}{self._values_in_words()}"

    def _values_in_words(self) -> str:
        return f"{len(self.classes):,} classes"

    @property
    def strata(self) -> np.ndarray:
        """Groups that every sample of the rows holds in proportion."""
        return self.y

    @property
    def held_out_rows(self) -> np.ndarray:
        """The numbers of the held-out rows among all rows that were read."""
        return self.original(self.test)

    def sample(self, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """At most n of these rows."""
        return rows[sample_by_class(self.strata[rows], n, rng)]

    def _check_labels(self, train):
        if len(self.classes) < 2:
            raise ValueError(
                f"the labels have one class only, {self.classes.tolist()[0]!r}, in {len(self.y):,} rows; "
                "a metric needs at least two classes."
            )
        if np.unique(self.y[train], return_counts=True)[1].max() < 2:
            remedy = ""
            if self.target == "classes" and self.y.dtype.kind in "iuf":
                remedy = ", or --target continuous if it is a quantity"
            raise ValueError(
                f"no class has two rows to learn from ({len(self.classes):,} classes in "
                f"{len(self.y):,} rows), as if the label were an id or a text; pass --label a column "
                f"whose values recur{remedy}."
            )

    def split(self, options: Options, rng: np.random.Generator) -> Self:
        if self.n_rows < MIN_ROWS:
            raise ValueError(
                f"the data have {self.n_rows} rows; at least {MIN_ROWS} are needed to learn and "
                "to hold some out."
            )
        rows = np.arange(self.n_rows)
        test = self._held_out(rows, options.test_size, rng)
        train = np.setdiff1d(rows, test)
        self._check_labels(train)
        self._check_groups(train, test)
        if options.n_neighbors > len(train):
            raise ValueError(
                f"n_neighbors={options.n_neighbors} (-k) is more than the {len(train)} rows that "
                f"vote, of {self.n_rows}; lower it."
            )
        most = self._most_rows(options)
        notes = self._notes_on_groups(test)
        learn = train
        learned_from = f"Learned from all {len(train):,} training rows."
        if len(train) > most:
            learn = self.sample(train, most, rng)
            learned_from = (
                f"Learned from {len(learn):,} of {len(train):,} training rows, {self.drawn}; all "
                "of them vote."
            )
        notes.append(learned_from)
        # cut last: rows that were held out are not learned from, whether they judge or not
        if len(test) > options.max_test_rows:
            test = self.sample(test, options.max_test_rows, rng)
            notes.append(f"Evaluated on {len(test):,} held-out rows, {self.drawn}.")
        return replace(self, train=train, learn=learn, test=test, notes=tuple(notes))

    def protocol(self, share: float) -> str:
        how = self.drawn if self.groups is None else "whole groups at a time"
        return f"{share:.0%} of the rows held out, {how}"

    def _held_out(self, rows, share, rng):
        """About this share of the rows; whole groups, if rows have any."""
        if self.groups is None:
            return self.sample(rows, round(share * len(rows)), rng)
        strata: Any = self.strata[rows]
        if len(np.unique(strata)) == 1:
            strata = None  # nothing to keep in proportion
        return rows[rows_of_groups(self.groups[rows], strata, share, rng)]

    def _check_groups(self, train, test):
        """Refuse groups that keep every class on one side."""
        if self.groups is None or self.kind != "labels":
            return
        if not np.isin(self.y[test], self.y[train]).any():
            raise ValueError(
                "--groups: every class occurs in one group only, so that no held-out row is of a class "
                "to learn from; leave --groups out, or name a column whose groups hold several classes."
            )

    def _notes_on_groups(self, test):
        if self.groups is None:
            return []
        n = len(np.unique(self.groups))
        n_held_out = len(np.unique(self.groups[test]))
        return [
            f"Groups: {n_held_out:,} of {n:,} are held out, {len(test):,} rows; training and held-out "
            "rows share no group, and p-values compare whole groups."
        ]

    def _most_rows(self, options):
        """Rows to learn from at most."""
        if options.max_rows is not None:
            return options.max_rows
        return find(str(options.method), self.kind).most_rows(options.n_pca or self.n_features)

    def whole(self, options: Options, rng: np.random.Generator) -> Self:
        rows = self.sample(np.arange(self.n_rows), self._most_rows(options), rng)
        return replace(self, train=rows, learn=rows, test=no_items())

    def training_rows(self) -> Any:
        return self.X[self.learn]

    def prepared(self, prepare: Any) -> Self:
        # rows that neither vote nor judge are not mapped
        used = np.union1d(self.train, self.test)
        groups = self.groups
        if groups is not None:
            groups = groups[used]
        return replace(
            self,
            X=prepare.transform(self.X[used]),
            y=self.y[used],
            raw=self.X,
            used=used,
            groups=groups,
            train=np.searchsorted(used, self.train),
            learn=np.searchsorted(used, self.learn),
            test=np.searchsorted(used, self.test),
        )

    @property
    def groups_in_folds(self) -> np.ndarray | None:
        """The groups of the rows to learn from, for estimators that hold some of these out in turn;
        None if there are none, or if no fold could be held out.
        """
        if self.groups is None:
            return None
        groups = self.groups[self.learn]
        _, stratum = np.unique(self.strata[self.learn], return_inverse=True)
        of_both = np.unique(np.column_stack([stratum, groups]), axis=0)
        groups_per_stratum = np.bincount(of_both[:, 0])
        # if every class is in one group only, the other groups hold nothing to learn it from
        if groups_per_stratum.max() < 2:
            return None
        return groups

    def fit(self, estimator: Any) -> None:
        given: dict[str, Any] = {"target": self.target}
        if has_fit_parameter(estimator, "groups"):
            given["groups"] = self.groups_in_folds
        estimator.fit(self.X[self.learn], self.y[self.learn], **given)

    def judge(self, estimator: Any, options: Options) -> Judgement:
        train = self.X[self.train]
        test = self.X[self.test]
        if estimator is not None:
            train = estimator.transform(train)
            test = estimator.transform(test)
        return self.judged(self._predict(train, test, options.n_neighbors))

    def _predict(self, train, test, k):
        """What the k nearest training rows predict."""
        y = self.y[self.train]
        return knn_predict(train, y, test, k, labelled_keys(self.X[self.train], y))

    def judged(self, predicted: np.ndarray) -> Judgement:
        """Judge predictions for the held-out rows."""
        wrong = predicted != self.y[self.test]
        return Judgement(wrong, {"predicted": predicted}, self._groups_of_test)

    @property
    def _groups_of_test(self):
        if self.groups is None:
            return None
        return self.groups[self.test]

    def constant(self) -> Constant:
        """What to predict without any column."""
        label = statistics.mode(self.y[self.learn].tolist())
        name = f"'{shortened(str(label), LONGEST_LABEL)}'"
        return Constant(label, name, f"{name}, the most common label")

    def validation(self, most: int, rng: np.random.Generator) -> Self:
        rows = self.sample(self.learn, most, rng)
        if self.groups is not None and len(np.unique(self.groups[rows])) > 1:
            test = self._held_out(rows, VALIDATION_SHARE, rng)
        else:
            test = self.sample(rows, max(1, round(VALIDATION_SHARE * len(rows))), rng)
        train = np.setdiff1d(rows, test)
        return replace(self, train=train, learn=train, test=test)


@dataclass(frozen=True)
class Measured(Labelled):
    """Rows with a quantity, predicted by the mean over their nearest training rows."""

    kind = "quantity"
    measure = "1 - R²"
    drawn = "drawn at random"

    target: str = field(default="continuous", kw_only=True)

    def _values_in_words(self) -> str:
        return "a quantity"

    @property
    def strata(self) -> np.ndarray:
        return np.zeros(len(self.y), int)

    def _check_labels(self, train):
        if not np.ptp(self.y) > 0:
            raise ValueError(
                f"the label is {self.y[0]} in all {self.n_rows:,} rows; there is nothing to learn "
                "from it."
            )

    def _predict(self, train, test, k):
        _, labels = nearest_labels(train, self.y[self.train], test, k)
        return labels.mean(1)

    def judged(self, predicted: np.ndarray) -> Judgement:
        true = self.y[self.test]
        squared = (predicted - true) ** 2
        variance = np.var(true) or 1.0
        rmse = float(squared.mean() ** 0.5)
        detail = {"predicted": predicted, "rmse": rmse}
        return Deviation(squared / variance, detail, self._groups_of_test)

    def constant(self) -> Constant:
        mean = float(self.y[self.learn].mean())
        name = f"the mean, {figure(mean)}"
        return Constant(mean, name, name)


def sample_by_class(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """At most n row numbers, sorted, each class in proportion and not with all its rows."""
    if n >= len(y):
        return np.arange(len(y))
    _, group, counts = np.unique(y, return_inverse=True, return_counts=True)
    order = rng.permutation(len(y))
    members = np.split(order[np.argsort(group[order], kind="stable")], np.cumsum(counts)[:-1])
    # a class with all its rows in the sample would have none left on the other side
    n_taken = np.minimum(np.round(counts * n / len(y)).astype(int), counts - 1)
    rows = np.concatenate([own[:k] for own, k in zip(members, n_taken, strict=True)])
    # rounding up in many classes may have taken a few too many
    return np.sort(rng.permutation(rows)[:n])
