"""The kinds of supervision (classes, quantity, pairs, triplets): split, fitted and judged."""

import statistics
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ...constraints.in_memory import check_pairs, check_similar, check_triplets
from ...evaluation.knn import knn_predict, nearest_labels
from ...evaluation.verification import best_threshold, distance_score
from ...neighbours.ties import labelled_keys
from ..options import Options
from .methods import find
from .task import Deviation, Judgement, Task, digits_of, no_items

MIN_ROWS = 10  # with fewer, a held-out share is a row or two
MOST_KEYS = 1000  # of the pairs that a metric was learned from, kept to recognise them
VALIDATION_SHARE = 0.3  # of the training items, the default of Options.test_size


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
            quantity = self.target == "classes" and self.y.dtype.kind in "iuf"
            remedy = ", or --target continuous if it is a quantity" if quantity else ""
            raise ValueError(
                f"no class has two rows to learn from ({len(self.classes):,} classes in "
                f"{len(self.y):,} rows), as if the label were an id or a text; give --label a column "
                f"whose values recur{remedy}."
            )

    def split(self, options: Options, rng: np.random.Generator) -> Self:
        if self.n_rows < MIN_ROWS:
            raise ValueError(
                f"the data have {self.n_rows} rows; at least {MIN_ROWS} are needed to learn and "
                "to hold some out."
            )
        rows = np.arange(self.n_rows)
        test = self.sample(rows, round(options.test_size * self.n_rows), rng)
        train = np.setdiff1d(rows, test)
        self._check_labels(train)
        if options.n_neighbors > len(train):
            raise ValueError(
                f"n_neighbors={options.n_neighbors} (-k) is more than the {len(train)} rows that "
                f"vote, of {self.n_rows}; lower it."
            )
        most = self._most_rows(options)
        learn, notes = train, [f"Learned from all {len(train):,} training rows."]
        if len(train) > most:
            learn = self.sample(train, most, rng)
            notes = [
                f"Learned from {len(learn):,} of {len(train):,} training rows, {self.drawn}; all "
                "of them vote."
            ]
        if len(test) > options.max_test_rows:
            test = self.sample(test, options.max_test_rows, rng)
            notes.append(f"Judged on {len(test):,} held-out rows, {self.drawn}.")
        return replace(self, train=train, learn=learn, test=test, notes=tuple(notes))

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
        used = np.union1d(self.train, self.test)
        parts = {key: np.searchsorted(used, vars(self)[key]) for key in ("train", "learn", "test")}
        parts |= {"X": prepare.transform(self.X[used]), "y": self.y[used], "raw": self.X}
        return replace(self, used=used, **parts)

    def fit(self, estimator: Any) -> None:
        estimator.fit(self.X[self.learn], self.y[self.learn], target=self.target)

    def judge(self, estimator: Any, options: Options) -> Judgement:
        train, test = (
            self.X[rows] if estimator is None else estimator.transform(self.X[rows])
            for rows in (self.train, self.test)
        )
        return self.judged(self._predict(train, test, options.n_neighbors))

    def _predict(self, train, test, k):
        """What the k nearest training rows predict."""
        y = self.y[self.train]
        return knn_predict(train, y, test, k, labelled_keys(self.X[self.train], y))

    def judged(self, predicted: np.ndarray) -> Judgement:
        """Judge predictions for the held-out rows."""
        return Judgement(predicted != self.y[self.test], {"predicted": predicted})

    def constant(self) -> tuple[Any, str]:
        """What to predict without any column, also in words."""
        label = statistics.mode(self.y[self.learn].tolist())
        return label, f"{label}, the most common label"

    def validation(self, most: int, rng: np.random.Generator) -> Self:
        rows = self.sample(self.learn, most, rng)
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
        return nearest_labels(train, self.y[self.train], test, k)[1].mean(1)

    def judged(self, predicted: np.ndarray) -> Judgement:
        true = self.y[self.test]
        squared, variance = (predicted - true) ** 2, np.var(true) or 1.0
        rmse = float(squared.mean() ** 0.5)
        return Deviation(squared / variance, {"predicted": predicted, "rmse": rmse})

    def constant(self) -> tuple[Any, str]:
        mean = self.y[self.learn].mean()
        return mean, f"{mean:.4g}, the mean"


def sample_by_class(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """At most n row numbers, sorted, each class in proportion and not with all its rows."""
    if n >= len(y):
        return np.arange(len(y))
    _, group, counts = np.unique(y, return_inverse=True, return_counts=True)
    order = rng.permutation(len(y))
    members = np.split(order[np.argsort(group[order], kind="stable")], np.cumsum(counts)[:-1])
    take = np.minimum(np.round(counts * n / len(y)).astype(int), counts - 1)
    rows = np.concatenate([own[:k] for own, k in zip(members, take, strict=True)])
    # rounding up in many classes may have taken a few too many
    return np.sort(rng.permutation(rows)[:n])


@dataclass(frozen=True)
class _Constrained(Task):
    """Rows with pairs or triplets of them, some of which are held out."""

    indices: np.ndarray

    def split(self, options: Options, rng: np.random.Generator) -> Self:
        n = len(self.indices)
        if n < MIN_ROWS:
            raise ValueError(
                f"there are {n} {self.items}; at least {MIN_ROWS} are needed to learn and to hold "
                "some out."
            )
        return self._cut(rng.permutation(n), round(options.test_size * n))

    def whole(self, options: Options, rng: np.random.Generator) -> Self:
        return self._cut(np.arange(len(self.indices)), 0)

    def validation(self, most: int, rng: np.random.Generator) -> Self:
        train = rng.permutation(self.train)[:most]
        return self._cut(train, max(1, round(VALIDATION_SHARE * len(train))))

    def _cut(self, items, n_test):
        return replace(self, test=np.sort(items[:n_test]), train=np.sort(items[n_test:]))

    def training_rows(self) -> Any:
        return self.X[np.unique(self.indices[self.train])]

    def prepared(self, prepare: Any) -> Self:
        return replace(self, X=prepare.transform(self.X), raw=self.X)


@dataclass(frozen=True)
class Paired(_Constrained):
    """Rows with pairs marked similar or not, judged by one threshold, set on the training pairs."""

    kind = items = "pairs"
    supervision = ("indices", "similar")

    similar: np.ndarray

    def __post_init__(self):
        check_pairs(self.indices, len(self.X))
        similar = check_similar(self.similar, len(self.indices))
        if similar.all() or not similar.any():
            raise ValueError(
                f"all {len(similar)} pairs are {'similar' if similar.all() else 'dissimilar'}; "
                "give some of both kinds."
            )

    def fingerprint(self) -> dict[str, Any]:
        rows = self.X if self.raw is None else self.raw
        return {"rows_id": digits_of(rows), "pairs": pair_keys(self.indices[self.train])}

    def fit(self, estimator: Any) -> None:
        estimator.fit(self.X, pairs=self.indices[self.train], similar=self.similar[self.train])

    def judge(self, estimator: Any, options: Options) -> Judgement:
        score = distance_score(estimator, self.X, self.indices)
        threshold, _ = best_threshold(score[self.train], self.similar[self.train])
        wrong = (score[self.test] >= threshold) != self.similar[self.test]
        return Judgement(wrong, {"distance": -score[self.test], "threshold": -float(threshold)})


def pair_keys(pairs: np.ndarray) -> list[int]:
    """Numbers that stand for pairs of rows, whatever the order of the two: those of the
    `MOST_KEYS` smallest, which are the same random sample of any set of pairs.
    """
    low, high = np.sort(pairs, axis=1).T.astype(np.uint64)
    with np.errstate(over="ignore"):
        keys = (low * np.uint64(0x9E3779B97F4A7C15) + high) * np.uint64(0xD1B54A32D192ED03)
    return np.unique((keys ^ (keys >> np.uint64(32))) >> np.uint64(11))[:MOST_KEYS].tolist()


@dataclass(frozen=True)
class Ranked(_Constrained):
    """Rows with triplets (i, j, k), i closer to j than to k, judged by the share in wrong order."""

    kind = items = "triplets"
    supervision = ("indices",)

    def __post_init__(self):
        check_triplets(self.indices, len(self.X))

    def fit(self, estimator: Any) -> None:
        estimator.fit(self.X, triplets=self.indices[self.train])

    def judge(self, estimator: Any, options: Options) -> Judgement:
        held_out = self.indices[self.test]
        near, far = (-distance_score(estimator, self.X, held_out[:, [0, j]]) for j in (1, 2))
        return Judgement(near >= far)
