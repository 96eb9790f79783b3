"""The rule of kernel ridge regression: kernel, width and ridge.

Settings are searched on a coarse grid of widths and ridges with few rows; the best are tried on all
rows, and from there the search moves to better neighbours on the grid.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from operator import itemgetter
from typing import ClassVar, NamedTuple, Self

import numpy as np

from ..core import fields
from ..core.arrays import Array, like, namespace, on_device, to_numpy
from ..engine import kernel_ridge
from ..engine.certificate import Certificate
from ..engine.distance_kernels import CITY_BLOCK, KernelSetting
from ..engine.kernel_blocks import fit_in_blocks
from .held_out import MAX_ROWS_TRIED, HeldOut, in_folds
from .rule import Judge, Training, Trial

# Relative to the mean squared distance; powers of two for the Gaussian kernel, of four for the
# Laplacian, which depends on the root. Relative to the mean distance for the city block.
WIDTHS = {
    "gaussian": tuple(2.0**-i for i in range(-6, 6)),
    "laplacian": tuple(4.0**-i for i in range(-5, 5)),
    CITY_BLOCK: tuple(2.0**-i for i in range(-7, 3)),
}
RIDGES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
# Rows up to which the kernel matrix is decomposed: of 8,000 in 256 MB and 1.2 to 3.1 s of two cores.
# Conjugate gradients with its entries computed block by block take 1.6 to 4.3 s, and 76 MB (of 15,000 90).
MAX_ROWS_FACTORED = 8000
COARSE = 2  # every other width and ridge is tried on few rows
N_COARSE = 300  # rows of each fold in the coarse search: a factorisation takes milliseconds
N_TRIED = 4  # settings of the coarse search that are tried on all rows
N_KEPT = 8  # settings of each kernel whose scores are kept
FITTED_FIELDS = {
    "landmarks": fields.Plain(bool),
    "scale": fields.Number(0, strict=True),
    "coefficients": fields.ArrayField("f", ("n", "t")),
    "offset": fields.ArrayField("f", ("t",)),
    "certificate": fields.Plain(dict),
}
N_HELD = 1  # widths whose kernel matrices are held: settings are tried width by width
# What a setting must err more in the first fold than the best, to be dropped: in standard errors of the
# difference, and relative to the loss of the best. Hundreds of settings are tried, so that two standard
# errors would drop good ones; and of smooth targets tiny differences are certain, in this fold.
CLEARLY, FAR = 3.0, 0.05


@dataclass(frozen=True)
class KernelRule(KernelSetting):
    """Kernel ridge regression with this kernel, width and ridge."""

    name: ClassVar[str] = "kernel"
    many: ClassVar[bool] = False
    learns: ClassVar[bool] = True
    most_parts: ClassVar[int] = 3

    @classmethod
    def default(cls) -> Self:
        """A smooth kernel."""
        return cls("gaussian", 1.0, 0.1)

    @classmethod
    def searches(cls, rows: HeldOut, judge: Judge) -> Iterator[Callable[[], list[Trial]]]:
        """For the width and ridge of each kernel that suits the metric."""
        return (partial(_search_kernel, rows, each, judge) for each in rows.candidate.kernels)

    @staticmethod
    def held_out_scores_of(settings: "list[KernelRule]", rows: HeldOut) -> list[np.ndarray]:
        """Scores of the held-out rows by each of these settings of one kernel."""
        by_width = sorted(settings, key=lambda rule: rule.width)  # each kernel matrix is made once
        scored = dict(zip(by_width, _scorer(rows, None).scores(by_width), strict=True))
        return [scored[rule] for rule in settings]

    def fit(
        self,
        rows: Training,
        landmarks: np.ndarray,
        certified: bool = True,
    ) -> "FittedKernel":
        """Solve the system of all rows, or that of the landmarks."""
        xp = namespace(rows.Z)
        Y, weights = (like(part, rows.Z, xp.float64) for part in (rows.Y, rows.weights))
        if len(landmarks) < len(rows.Z):
            kept = rows.among(landmarks)
            fitted = kernel_ridge.fit_landmarks(self, rows.Z, Y, weights, kept.Z, certified)
            return FittedKernel(self, kept, *fitted)
        if len(rows.Z) <= MAX_ROWS_FACTORED or on_device(rows.Z):
            fitted = kernel_ridge.fit_exactly(self, rows.Z, Y, weights, certified)
            return FittedKernel(self, rows, *fitted)
        order = np.argsort(rows.keys, kind="stable")  # hashes of the rows: a random order
        model, certificate = fit_in_blocks(
            self, to_numpy(rows.Z), rows.Y, rows.weights, order, for_use=certified
        )
        points, coefficients, offset = (
            like(part, rows.Z, xp.float64)
            for part in (model.points, model.coefficients, model.offset)
        )
        model = replace(model, points=points, coefficients=coefficients, offset=offset)
        return FittedKernel(self, rows, model, certificate)

    @property
    def by_columns(self) -> bool:
        return self.kernel == CITY_BLOCK

    def restored(self, rows: Training, state: fields.State) -> "FittedKernel":
        """The kernel sum of this state."""
        fields.check(state, FITTED_FIELDS, "fitted", {"n": len(rows.Y), "t": rows.Y.shape[1]})
        points = like(rows.Z, rows.Z, namespace(rows.Z).float64)
        certificate = Certificate.from_state(state["certificate"], "fitted.certificate")
        sums = {name: value for name, value in state.items() if name != "certificate"}
        return FittedKernel(self, rows, kernel_ridge.KernelSum(self, points, **sums), certificate)


@dataclass(frozen=True)
class FittedKernel:
    """A kernel sum over training rows."""

    rule: KernelRule
    rows: Training
    model: kernel_ridge.KernelSum
    certificate: Certificate | None

    def scores(self, Z: Array) -> np.ndarray:
        """The sum at each row."""
        return to_numpy(self.model(like(Z, self.model.points)))

    def contributions(self, Z: Array, direction: np.ndarray, by: str) -> np.ndarray:
        """The term of each row, or the weight of its target in the score times that target."""
        kernel = self.model.kernel(like(Z, self.model.points))
        if by == "terms":
            return to_numpy(kernel) * (direction @ to_numpy(self.model.coefficients).T)
        return self._target_weights(kernel) * (
            direction @ (self.rows.Y - to_numpy(self.model.offset)).T
        )

    def _target_weights(self, kernel: Array) -> np.ndarray:
        """How much each target counts in the score of new rows with these kernel values (n, n_kept).

        The score is f(x) = c + k(x)'(K + ridge W^-1)^-1 (y - c), so the weights of the targets are
        k(x)'(K + ridge W^-1)^-1: large for rows near x, while terms are large for rows that are both
        near x and hard to fit. They take a decomposition of the kernel matrix.
        """
        if self.model.landmarks:
            raise ValueError(
                "by='targets' needs a kernel sum over all training rows, and this one is over "
                f"{len(self.model.points):,} landmarks; pass by='terms'."
            )
        ridges = like(self.rule.ridge / self.rows.weights, kernel)
        solved = kernel_ridge.ridge_solve(self.model.kernel(self.model.points), ridges, kernel.T)
        return to_numpy(solved).T

    def state(self) -> fields.State:
        """The sum without its points, which are training rows."""
        model = self.model
        return {
            "landmarks": model.landmarks,
            "scale": model.scale,
            "coefficients": to_numpy(model.coefficients),
            "offset": to_numpy(model.offset),
            "certificate": None if self.certificate is None else self.certificate.state(),
        }


# ---- the search


def coarse_loss(rows: HeldOut, judge: Judge, first: HeldOut) -> float:
    """The least loss on few rows, by settings that are good in the ``first`` metric of the family."""
    promising = _coarse(first, first.candidate.kernels[0], judge)
    if rows is first:
        return min(promising.values())
    return min(map(judge, _scorer(rows, N_COARSE).scores(list(promising))))


def _coarse(rows: HeldOut, kernel: str, judge: Judge) -> dict[KernelRule, float]:
    """The best settings of the coarse grid and their losses on few rows; computed once."""
    if kernel not in rows.coarse:
        grid = product((kernel,), WIDTHS[kernel][::COARSE], RIDGES[::COARSE])
        settings = [KernelRule(*each) for each in grid]
        losses = map(judge, _scorer(rows, N_COARSE).scores(settings))
        found = zip(settings, losses, strict=True)
        rows.coarse[kernel] = dict(sorted(found, key=itemgetter(1))[:N_TRIED])
    return rows.coarse[kernel]


def _search_kernel(rows: HeldOut, kernel: str, judge: Judge) -> list[Trial]:
    """The settings tried with some of these rows, the best first.

    From the best settings of the coarse grid the search moves to neighbours on the full grid, as long as
    one is better. Settings that clearly lose in the first fold are not tried in the others.
    """
    scorer = _scorer(rows, MAX_ROWS_TRIED)
    first_fold = judge.among(slice(len(rows.folds[0].held_out)))
    following = list(_coarse(rows, kernel, judge))
    tried: dict[KernelRule, Trial] = {}
    known: set[KernelRule] = set()
    best: KernelRule | None = None
    while following:
        known.update(following)
        # settings of one width one after the other: only the matrices of the last width are held
        following = sorted(following, key=lambda rule: rule.width)
        of_first = scorer.scores(following, folds=[0])
        leader = None if best is None else tried[best].scores
        going_on = _without_losers(of_first, first_fold, leader)
        following = [following[i] for i in going_on]
        of_others = scorer.scores(following, folds=range(1, len(rows.folds)))
        for i, rule, others in zip(going_on, following, of_others, strict=True):
            tried[rule] = rows.trial(rule, np.concatenate([of_first[i], others]), judge)
        best = min(tried, key=lambda rule: tried[rule].loss)
        following = [rule for rule in _around(best) if rule not in known]
    return sorted(tried.values(), key=lambda trial: trial.loss)[:N_KEPT]


def _without_losers(scores: list[np.ndarray], judge: Judge, leader: np.ndarray | None) -> list[int]:
    """Which of these scores of the first fold are not clearly worse than the best of them, or than those
    of the ``leader`` so far.
    """
    losses = [judge.losses(of_rule) for of_rule in scores]
    if leader is None:
        # the loss of a singular system, which has no scores, is NaN
        means = np.array([of_rule.mean() for of_rule in losses])
        best = int(np.argmin(np.where(np.isnan(means), np.inf, means)))
        reference = losses[best]
    else:
        reference = judge.losses(leader[: len(judge.Y)])
    going_on = []
    for i, of_rule in enumerate(losses):
        excess = of_rule - reference
        spread = excess.std() / len(excess) ** 0.5
        loses = excess.mean() > max(CLEARLY * spread, FAR * reference.mean())
        if not loses:  # nor if it is NaN, which is judged as what it is
            going_on.append(i)
    return going_on


class _Scorer(NamedTuple):
    """Scores of held-out rows by settings of a kernel."""

    in_fold: Callable[[KernelRule, int], np.ndarray]
    n_folds: int
    n_targets: int
    Z: Array

    def scores(
        self, rules: Sequence[KernelRule], folds: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """The scores by each of the rules of the rows of these folds (all), fold by fold; NaN where a
        system is singular.
        """
        numbers = range(self.n_folds) if folds is None else folds
        if not numbers:
            return [np.empty((0, self.n_targets)) for _ in rules]
        scored = in_folds(
            lambda rule, k: self.in_fold(rule, numbers[k]), rules, len(numbers), self.Z
        )
        return [np.concatenate(each) for each in scored]


def _scorer(rows: HeldOut, n_rows: int | None) -> _Scorer:
    """Of kernels that learn from the first ``n_rows`` rows of each fold (None: all)."""

    @lru_cache(N_HELD * len(rows.folds))
    def matrices(f: int, kernel: str, width: float) -> list[Array]:
        return rows.folds[f].kernel_matrices(kernel, width, n_rows)

    known = []
    # once for each fold, not for each of hundreds of settings
    for Z, Y, weights, _ in (fold.train for fold in rows.folds):
        Y = Y[:n_rows]
        weights = weights[:n_rows]
        offset = np.average(Y, axis=0, weights=weights)
        known.append((like(Y - offset, Z, namespace(Z).float32), weights, offset))

    def in_fold(rule: KernelRule, f: int) -> np.ndarray:
        Y, weights, offset = known[f]
        K, across = matrices(f, rule.kernel, rule.width)
        a = kernel_ridge.ridge_solve(K, like(rule.ridge / weights, K), Y)
        if a is None:  # the system is singular
            a = like(np.full(Y.shape, np.nan), K)
        return to_numpy(across @ a) + offset

    first = rows.folds[0].train
    return _Scorer(in_fold, len(known), first.Y.shape[1], first.Z)


def _around(rule: KernelRule) -> Sequence[KernelRule]:
    """Neighbours on the grid: the next widths and ridges of the same kernel."""
    widths = WIDTHS[rule.kernel]
    i = widths.index(rule.width)
    j = RIDGES.index(rule.ridge)
    neighbours = []
    for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
        is_on_grid = 0 <= a < len(widths) and 0 <= b < len(RIDGES)
        if is_on_grid:
            neighbours.append(replace(rule, width=widths[a], ridge=RIDGES[b]))
    return neighbours
