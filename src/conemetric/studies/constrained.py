"""Supervision by pairs and triplets of rows: split, fitted and judged."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ..constraints.in_memory import check_pairs, check_similar, check_triplets
from ..core.wording import plural
from ..evaluation.verification import best_threshold, distance_score
from .holding_out import Division, divided, groups_of, in_proportion
from .options import Options
from .supervision import MIN_ROWS, VALIDATION_SHARE, Constant
from .task import Judgement, Task, digits_of, no_items

MOST_KEYS = 1000  # of the pairs that a metric was learned from, kept to recognise them
# Rows of pairs are held out until so many pairs judge, an error's standard error being 5 % or less, if
# that takes at most this share of the rows; at least this share of the pairs is then learned from.
ENOUGH_JUDGED = 100
LARGEST_SHARE = 0.5
SHARE_STEP = 0.05
LEAST_LEARNED_FROM = 0.2
MOST_RECURRING = 4  # pairs of a row, on average, that may pass for independent


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
                f"groups cannot be held out; pass more {self.items} or smaller groups, or leave "
                "--groups out."
            )
        order = rng.permutation(n)
        n_test = round(options.test_size * n)
        held_out = Division(np.sort(order[n_test:]), np.sort(order[:n_test]))
        task = self._cut(held_out, rng, None, [])
        n_judged = len(np.unique(self.indices[held_out.test]))
        note = (
            f"Evaluation shares {task.n_shared:,} of its {n_judged:,} rows with training, because too few "
            f"{self.items} are left if rows are held out: errors on new rows are higher."
        )
        return replace(task, notes=(note,))

    def _notes_on(self, held_out, together):
        """How items are held out by rows."""
        n_learned_from, n_judged = (len(np.unique(self.indices[part])) for part in held_out)
        yield (
            f"Evaluated on {len(held_out.test):,} {self.items} of {n_judged:,} rows, learned from "
            f"{len(held_out.train):,} of {n_learned_from:,} other rows; training and evaluation share 0 "
            f"rows{together}."
        )
        recurring = self.indices[0].size * len(held_out.test) / n_judged
        if recurring > MOST_RECURRING:
            yield (
                f"A row is in {recurring:.0f} of the held-out {self.items}, on average; p takes "
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
            # from the same seed, so that what a share holds out does not depend on
            # the shares tried before it
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
            kind = "similar" if similar.all() else "dissimilar"
            raise ValueError(f"all {len(similar)} pairs are {kind}; pass some of both kinds.")

    def fingerprint(self) -> dict[str, Any]:
        learned_from = self.indices[self.train]
        rows = np.unique(learned_from)
        as_given = self.X if self.raw is None else self.raw
        return {
            "rows_id": digits_of(as_given),
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
        # holding out whole things changes the share of similar pairs, and
        # with it the best threshold
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
    # 53 bits, which every reader of JSON holds exactly
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
        near = -distance_score(estimator, self.X, held_out[:, [0, 1]])
        far = -distance_score(estimator, self.X, held_out[:, [0, 2]])
        return Judgement(near >= far)
