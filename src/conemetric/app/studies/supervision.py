"""The kinds of supervision (classes, quantity, pairs, triplets): split, fitted and judged."""

import statistics
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import has_fit_parameter

from ...constraints.in_memory import check_pairs, check_similar, check_triplets
from ...core.wording import plural, shortened
from ...evaluation.knn import knn_predict, nearest_labels
from ...evaluation.verification import best_threshold, distance_score
from ...neighbours.ties import labelled_keys
from ..options import Options
from .holding_out import Division, divided, groups_of, in_proportion, rows_of_groups
from .methods import find
from .task import Deviation, Judgement, Task, digits_of, no_items

MIN_ROWS = 10  # with fewer, a held-out share is a row or two
# Rows of pairs are held out until so many pairs judge, an error's standard error being 5 % or less, if
# that takes at most this share of the rows; at least this share of the pairs is then learned from.
ENOUGH_JUDGED = 100
LARGEST_SHARE, SHARE_STEP = 0.5, 0.05
LEAST_LEARNED_FROM = 0.2
MOST_RECURRING = 4  # pairs of a row, on average, that may pass for independent
MOST_KEYS = 1000  # of the pairs that a metric was learned from, kept to recognise them
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
        if len(test) > options.max_test_rows:
            test = self.sample(test, options.max_test_rows, rng)
            notes.append(f"Judged on {len(test):,} held-out rows, {self.drawn}.")
        return replace(self, train=train, learn=learn, test=test, notes=tuple(notes))

    def protocol(self, share: float) -> str:
        how = self.drawn if self.groups is None else "whole groups at a time"
        return f"{share:.0%} of the rows held out, {how}"

    def _held_out(self, rows, share, rng):
        """About this share of the rows; whole groups, if rows have any."""
        if self.groups is None:
            return self.sample(rows, round(share * len(rows)), rng)
        strata = self.strata[rows]
        classes = strata if len(np.unique(strata)) > 1 else None
        return rows[rows_of_groups(self.groups[rows], classes, share, rng)]

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
        n_held_out, n = len(np.unique(self.groups[test])), len(np.unique(self.groups))
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
        used = np.union1d(self.train, self.test)
        parts = {key: np.searchsorted(used, vars(self)[key]) for key in ("train", "learn", "test")}
        parts |= {"X": prepare.transform(self.X[used]), "y": self.y[used], "raw": self.X}
        if self.groups is not None:
            parts["groups"] = self.groups[used]
        return replace(self, used=used, **parts)

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
        return groups if groups_per_stratum.max() > 1 else None

    def fit(self, estimator: Any) -> None:
        given: dict[str, Any] = {"target": self.target}
        if has_fit_parameter(estimator, "groups"):
            given["groups"] = self.groups_in_folds
        estimator.fit(self.X[self.learn], self.y[self.learn], **given)

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
        wrong = predicted != self.y[self.test]
        return Judgement(wrong, {"predicted": predicted}, self._groups_of_test)

    @property
    def _groups_of_test(self):
        return None if self.groups is None else self.groups[self.test]

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
        detail = {"predicted": predicted, "rmse": rmse}
        return Deviation(squared / variance, detail, self._groups_of_test)

    def constant(self) -> Constant:
        mean = float(self.y[self.learn].mean())
        name = f"the mean, {mean:.4g}"
        return Constant(mean, name, name)


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
    """Rows with pairs or triplets of them. Some rows are held out: pairs of these judge, pairs of
    other rows are learned from, and pairs that connect the two are in neither.
    """

    indices: np.ndarray

    @property
    def n_shared(self) -> int:
        return len(np.intersect1d(self.indices[self.train], self.indices[self.test]))

    @property
    def sharing(self) -> str:
        return f" that share {plural(self.n_shared, 'row')} with training"

    def protocol(self, share: float) -> str:
        rows = "of rows that no training pair has".replace("pair", self.items.removesuffix("s"))
        if self.n_shared:
            rows = f"{plural(self.n_shared, 'row')} of which are in training {self.items} too"
        return f"{len(self.test):,} of {len(self.indices):,} {self.items} held out, {rows}"

    def split(self, options: Options, rng: np.random.Generator) -> Self:
        n = len(self.indices)
        if n < MIN_ROWS:
            raise ValueError(
                f"there are {n} {self.items}; at least {MIN_ROWS} are needed to learn and to hold "
                "some out."
            )
        for groups, together in self._kept_together():
            held_out = self._by_rows(np.arange(n), groups, options.test_size, rng)
            if held_out is not None:
                return self._cut(held_out, rng, groups, self._notes_on(held_out, together))
        if self.groups is not None:
            raise ValueError(
                f"--groups: too few {self.items} lie within some groups and within the others, so that "
                f"groups cannot be held out; give more {self.items} or smaller groups, or leave "
                "--groups out."
            )
        order = rng.permutation(n)
        n_test = round(options.test_size * n)
        held_out = Division(np.sort(order[n_test:]), np.sort(order[:n_test]))
        task = self._cut(held_out, rng, None, [])
        n_judged = len(np.unique(self.indices[held_out.test]))
        note = (
            f"Judging shares {task.n_shared:,} of its {n_judged:,} rows with training, because too few "
            f"{self.items} are left if rows are held out: errors on new rows are higher."
        )
        return replace(task, notes=(note,))

    def _notes_on(self, held_out, together):
        """How items are held out by rows."""
        n_learned_from, n_judged = (len(np.unique(self.indices[part])) for part in held_out)
        yield (
            f"Judged on {len(held_out.test):,} {self.items} of {n_judged:,} rows, learned from "
            f"{len(held_out.train):,} of {n_learned_from:,} other rows; training and judging share 0 "
            f"rows{together}."
        )
        recurring = self.indices[0].size * len(held_out.test) / n_judged
        if recurring > MOST_RECURRING:
            yield (
                f"A row is in {recurring:.0f} of the {self.items} that judge, on average; p takes "
                f"{self.items} as independent, and is smaller than it would be for new rows."
            )

    def whole(self, options: Options, rng: np.random.Generator) -> Self:
        every = np.arange(len(self.indices))
        return replace(self, train=every, test=no_items())

    def validation(self, most: int, rng: np.random.Generator) -> Self:
        items = rng.permutation(self.train)[:most]
        for groups, _ in self._kept_together():
            held_out = self._by_rows(items, groups, VALIDATION_SHARE, rng)
            if held_out is not None:
                return self._cut(held_out, rng, groups, [])
        n_test = max(1, round(VALIDATION_SHARE * len(items)))
        held_out = Division(np.sort(items[n_test:]), np.sort(items[:n_test]))
        return self._cut(held_out, rng, None, [])

    def _kept_together(self):
        """Ways to tell which rows stay together, the strictest first: a group for each row, and what
        a note says of them.
        """
        if self.groups is not None:
            yield self.groups, " and no group"
        else:
            yield np.arange(len(self.X)), ""

    def _by_rows(self, items, groups, share, rng):
        """Divide these items, so that no row is on both sides, with this share of the groups held
        out, or more if few items are left to judge on; None if too few are left.
        """
        seed = int(rng.integers(2**31 - 1))
        best = None
        for larger in np.arange(share, max(share, LARGEST_SHARE) + 1e-9, SHARE_STEP):
            again = np.random.default_rng(seed)
            train, test = divided(self.indices[items], groups, larger, again)
            found = self._judging(Division(items[train], items[test]), again)
            if not self._is_enough(found, len(items)):
                continue
            if best is None or len(found.test) > len(best.test):
                best = found
            if len(found.test) >= ENOUGH_JUDGED:
                break
        return best

    def _judging(self, held_out, rng):
        """Of what is held out, the items to judge on."""
        return held_out

    def _is_enough(self, held_out, n):
        """Whether there is enough to learn from and to judge on."""
        least = max(MIN_ROWS, LEAST_LEARNED_FROM * n)
        return len(held_out.train) >= least and len(held_out.test) >= MIN_ROWS

    def _cut(self, held_out, rng, groups, notes):
        return replace(
            self, train=np.sort(held_out.train), test=np.sort(held_out.test), notes=tuple(notes)
        )

    def training_rows(self) -> Any:
        return self.X[np.unique(self.indices[self.train])]

    def prepared(self, prepare: Any) -> Self:
        return replace(self, X=prepare.transform(self.X), raw=self.X)


@dataclass(frozen=True)
class Paired(_Constrained):
    """Rows with pairs marked similar or not, judged by one threshold, set on training pairs. Rows
    that similar pairs link are one thing, such as a person, and are held out together where that
    leaves enough pairs.
    """

    kind = items = "pairs"
    supervision = ("indices", "similar")

    similar: np.ndarray
    # the training pairs that set the threshold: similar ones have the share that they have in all
    setting: np.ndarray = field(default_factory=no_items, kw_only=True)

    def __post_init__(self):
        check_pairs(self.indices, len(self.X))
        similar = check_similar(self.similar, len(self.indices))
        if similar.all() or not similar.any():
            raise ValueError(
                f"all {len(similar)} pairs are {'similar' if similar.all() else 'dissimilar'}; "
                "give some of both kinds."
            )

    def fingerprint(self) -> dict[str, Any]:
        learned_from = self.indices[self.train]
        rows = np.unique(learned_from)
        return {
            "rows_id": digits_of(self.X if self.raw is None else self.raw),
            "pairs": pair_keys(learned_from),
            "pair_rows": pair_keys(np.column_stack([rows, rows])),
        }

    def fit(self, estimator: Any) -> None:
        estimator.fit(self.X, pairs=self.indices[self.train], similar=self.similar[self.train])

    def _kept_together(self):
        if self.groups is None:
            things = groups_of(self.indices[self.similar], len(self.X))
            yield things, ", and rows that pairs call the same stay on one side"
        yield from super()._kept_together()

    def _judging(self, held_out, rng):
        """As many pairs of each kind as keep the share of similar ones, which holding out things
        changes: similar pairs lie within one thing, dissimilar ones between two.
        """
        test = in_proportion(held_out.test, self.similar, self.similar.mean(), rng)
        return Division(held_out.train, test)

    def _is_enough(self, held_out, n):
        both = all(len(np.unique(self.similar[part])) == 2 for part in held_out)
        return both and super()._is_enough(held_out, n)

    def _cut(self, held_out, rng, groups, notes):
        setting = held_out.train
        if groups is not None:
            setting = in_proportion(held_out.train, self.similar, self.similar.mean(), rng)
        task = super()._cut(held_out, rng, groups, notes)
        return replace(task, setting=setting)

    def judge(self, estimator: Any, options: Options) -> Judgement:
        score = distance_score(estimator, self.X, self.indices)
        threshold, _ = best_threshold(score[self.setting], self.similar[self.setting])
        judgement = self.judged(score[self.test] >= threshold)
        detail = {"distance": -score[self.test], "threshold": -float(threshold)}
        return replace(judgement, detail=detail)

    def judged(self, called_similar: np.ndarray) -> Judgement:
        """Judge what held-out pairs are called."""
        return Judgement(called_similar != self.similar[self.test])

    def constant(self) -> Constant:
        similar = bool(self.similar[self.setting].mean() > 0.5)
        name = "'same'" if similar else "'different'"
        return Constant(similar, name, name)


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
