"""The rule of kernel ridge regression: kernel, width and ridge.

Settings are searched on a coarse grid of widths and ridges with few rows; the best are tried on all
rows, and from there the search moves to better neighbours on the grid.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from operator import itemgetter
from typing import ClassVar, Self

import numpy as np

from ..core import fields
from ..core.arrays import Array, like, namespace, to_numpy
from ..solvers import kernel_ridge
from ..solvers.base import Certificate
from .held_out import HeldOut, in_folds
from .rule import Judge, Training, Trial

# Relative to the mean squared distance; powers of two for the Gaussian kernel, of four for the
# Laplacian, which depends on the root. Relative to the mean distance for the city block.
WIDTHS = {
    "gaussian": tuple(2.0**-i for i in range(-6, 6)),
    "laplacian": tuple(4.0**-i for i in range(-5, 5)),
    kernel_ridge.CITY_BLOCK: tuple(2.0**-i for i in range(-7, 3)),
}
RIDGES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)
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
N_HELD = 3  # widths whose kernel matrices are held: the best and its neighbours, 72 MB each at most


@dataclass(frozen=True)
class KernelRule(kernel_ridge.KernelSetting):
    """Kernel ridge regression with this kernel, width and ridge."""

    name: ClassVar[str] = "kernel"
    many: ClassVar[bool] = False
    most_parts: ClassVar[int] = 3

    @classmethod
    def default(cls) -> Self:
        """A smooth kernel."""
        return cls("gaussian", 1.0, 0.1)

    @classmethod
    def searches(cls, rows: HeldOut, judge: Judge) -> Iterator[Callable[[], list[Trial]]]:
        """For the width and ridge of each kernel that suits the metric."""
        return (partial(_search_kernel, rows, each, judge) for each in rows.candidate.kernels)

    def fit(self, rows: Training, landmarks: np.ndarray, certified: bool = True) -> "FittedKernel":
        """Solve the system of all rows, or that of the landmarks."""
        xp = namespace(rows.Z)
        Y, weights = (like(part, rows.Z, xp.float64) for part in (rows.Y, rows.weights))
        if len(landmarks) == len(rows.Z):
            fitted = kernel_ridge.fit_exactly(self, rows.Z, Y, weights, certified)
            return FittedKernel(self, rows, *fitted)
        kept = rows.among(landmarks)
        fitted = kernel_ridge.fit_landmarks(self, rows.Z, Y, weights, kept.Z, certified)
        return FittedKernel(self, kept, *fitted)

    @property
    def by_columns(self) -> bool:
        return self.kernel == kernel_ridge.CITY_BLOCK

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
    return min(map(judge, _scorer(rows, N_COARSE)(list(promising))))


def _coarse(rows: HeldOut, kernel: str, judge: Judge) -> dict[KernelRule, float]:
    """The best settings of the coarse grid and their losses on few rows; computed once."""
    if kernel not in rows.coarse:
        grid = product((kernel,), WIDTHS[kernel][::COARSE], RIDGES[::COARSE])
        settings = [KernelRule(*each) for each in grid]
        found = zip(settings, map(judge, _scorer(rows, N_COARSE)(settings)), strict=True)
        rows.coarse[kernel] = dict(sorted(found, key=itemgetter(1))[:N_TRIED])
    return rows.coarse[kernel]


def _search_kernel(rows: HeldOut, kernel: str, judge: Judge) -> list[Trial]:
    """The settings tried on all rows, the best first."""
    following = list(_coarse(rows, kernel, judge))
    scores, tried = _scorer(rows, None), {}
    while following:
        following = sorted(following, key=lambda rule: rule.width)
        for rule, found in zip(following, scores(following), strict=True):
            tried[rule] = rows.trial(rule, found, judge)
        best = min(tried, key=lambda rule: tried[rule].loss)
        following = [rule for rule in _around(best) if rule not in tried]
    return sorted(tried.values(), key=lambda trial: trial.loss)[:N_KEPT]


def _scorer(rows: HeldOut, n_rows: int | None) -> Callable[[list[KernelRule]], list[np.ndarray]]:
    """The function from settings to the scores of held-out rows; NaN where one is singular."""

    @lru_cache(N_HELD * len(rows.folds))
    def matrices(f: int, kernel: str, width: float) -> list[Array]:
        return rows.folds[f].kernel_matrices(kernel, width, n_rows)

    known = []
    for Z, Y, weights, _ in (fold.train for fold in rows.folds):
        Y, weights = Y[:n_rows], weights[:n_rows]
        offset = np.average(Y, axis=0, weights=weights)
        known.append((like(Y - offset, Z, namespace(Z).float32), weights, offset))

    def in_fold(rule: KernelRule, f: int) -> np.ndarray:
        (Y, weights, offset), (K, across) = known[f], matrices(f, rule.kernel, rule.width)
        a = kernel_ridge.ridge_solve(K, like(rule.ridge / weights, K), Y)
        a = like(np.full(Y.shape, np.nan), K) if a is None else a
        return to_numpy(across @ a) + offset

    return lambda rules: [np.concatenate(e) for e in in_folds(in_fold, rules, len(known), Z)]


def _around(rule: KernelRule) -> Sequence[KernelRule]:
    """Neighbours on the grid: the next widths and ridges of the same kernel."""
    widths = WIDTHS[rule.kernel]
    i, j = widths.index(rule.width), RIDGES.index(rule.ridge)
    return [
        replace(rule, width=widths[a], ridge=RIDGES[b])
        for a, b in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1))
        if 0 <= a < len(widths) and 0 <= b < len(RIDGES)
    ]
