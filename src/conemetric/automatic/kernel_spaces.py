"""AutoMetric's blends in the coordinates of kernels (docs/mathematics/kernels.md).

    z_f(x) = k(x, rows of the other folds) P_f               coordinates without the rows of fold f
    M_f = sum over methods k of a_k M_kf / s_kf              over these, as in `automatic`
    d(x, y)^2 = sum over folds f of (z_f(x) - z_f(y))' M_f (z_f(x) - z_f(y))

Held-out rows are no landmarks of the coordinates that they judge: they are as new rows will be. All
coordinates are sums over the same kernel values k(x, z), so the blend is one `KernelMap`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..core.arrays import to_numpy
from ..engine.certificate import Certificate
from ..engine.kernel_map import KernelMap, decomposed, kernel_values, median_width
from ..evaluation.statistics import mcnemar
from .folds import (
    BASELINE,
    Fold,
    JudgedMetric,
    LabelledFolds,
    Weighed,
    excess,
    fit_linear_map,
)

KERNELS = ("gaussian", "laplacian")
MAX_COORDINATES = 150
# Landmarks of a fold: their kernel matrix is decomposed in a fifth of a second.
MAX_LANDMARKS = 1000
# Rows up to which kernels are tried: each fold holds coordinates of all rows.
MAX_ROWS = 20_000
# Standard errors, of rows on which they disagree, by which a kernel's blend must be better than the
# linear one, which can be indexed, exported and read: the one-standard-error rule (Breiman et al. 1984).
# On the 17 tuning sets 19 of 22 kernels that it takes are better on new rows; 1.64 takes 16, 14 better.
CLEARLY_BETTER = 1.0
# Standard errors by which the quick methods may be worse than the linear blend before the slow one is
# not tried: it seldom makes up for more.
HOPELESS = 1.64
# Directions of the blend with a smaller share of its largest variance are dropped.
LEAST_SHARE = 1e-6


class KernelBlend(NamedTuple):
    """A blend in the coordinates of a kernel, with the metrics of its methods by fold."""

    rows: "KernelFolds"
    found: Mapping[str, list[JudgedMetric]]
    certificates: dict[str, list[Certificate]]
    weighed: Any  # Weighed; None before it has a method

    def mapped(self, n_components: int | None) -> tuple[KernelMap, np.ndarray]:
        """The map to its coordinates, and the scales of these, descending."""
        return self.rows.blended(self.found, self.weighed.weights, n_components)

    def evidence(self, plain: list[JudgedMetric]) -> Any:
        """The evidence beside the Euclidean distance of the columns, not of the coordinates."""
        evidence = self.weighed.evidence
        wrong = np.concatenate([fold.wrong for fold in plain])
        spread = float(wrong.std() / len(wrong) ** 0.5)
        return replace(
            evidence,
            error={**evidence.error, BASELINE: float(wrong.mean())},
            standard_error={**evidence.standard_error, BASELINE: spread},
            p_value=mcnemar(wrong, self.weighed.wrong),
        )


def blend_of(folds: "KernelFolds", methods: Mapping[str, Any]) -> KernelBlend:
    """The blend of these methods in the coordinates of a kernel."""
    return extended(KernelBlend(folds, {BASELINE: folds.plain()}, {}, None), methods)


def extended(blend: KernelBlend, methods: Mapping[str, Any]) -> KernelBlend:
    """The blend with further methods."""
    folds = blend.rows
    found = dict(blend.found)
    certificates = dict(blend.certificates)
    for name, estimator in methods.items():
        fits = folds.fits(estimator)
        judged: list[Any] = [metric for metric, _ in fits]
        if fits and None not in judged:  # None: the metric is zero
            found[name] = judged
            certificates[name] = [certificate for _, certificate in fits if certificate]
    return KernelBlend(folds, found, certificates, folds.weigh(found))


def best_blend(
    rows: LabelledFolds,
    linear: Weighed,
    quick: Mapping[str, Any],
    slow: Mapping[str, Any],
    max_rows: int | None,
) -> KernelBlend:
    """The blend of the kernel in which the quick methods err least, with the slow ones unless that is
    hopeless.
    """
    blends = [blend_of(KernelFolds(rows, kernel, max_rows), quick) for kernel in KERNELS]
    best = min(blends, key=lambda blend: blend.weighed.wrong.mean())
    if excess(best.weighed.wrong, linear.wrong) > HOPELESS:
        return best
    return extended(best, slow)


def is_clearly_better(blend: KernelBlend, linear: Weighed) -> bool:
    """Whether the blend errs less than the linear one by at least a standard error."""
    return excess(linear.wrong, blend.weighed.wrong) >= CLEARLY_BETTER


class KernelFolds(LabelledFolds):
    """The folds of labelled rows, each of which sees coordinates with its training rows as landmarks."""

    def __init__(self, rows: LabelledFolds, kernel: str, max_rows: int | None = None) -> None:
        # the folds, seed and vote of the linear blend: the two are compared row by row
        vars(self).update(vars(rows))
        self.kernel = kernel
        self.max_rows = max_rows
        # the landmarks of a fold, by row number, and its coordinates of all rows
        self.landmarks: list[np.ndarray] = []
        self.projections: list[np.ndarray] = []
        self._points: dict[int, np.ndarray] = {}
        X = np.ascontiguousarray(rows.host, dtype=np.float64)
        labelled = np.sort(np.concatenate([fold.held_out for fold in rows.folds]))
        self.width = median_width(kernel, X[labelled], check_random_state(rows.seed))
        for fold in rows.folds:
            chosen = fold.train[:MAX_LANDMARKS]
            # a repeated landmark adds nothing to their span, and makes the kernel matrix singular
            _, first = np.unique(X[chosen], axis=0, return_index=True)
            chosen = chosen[np.sort(first)]
            K = kernel_values(kernel, X[chosen], X[chosen], self.width)
            projection = decomposed(K, MAX_COORDINATES, is_definite=True).projection
            self.landmarks.append(chosen)
            self.projections.append(projection)
            mapping = KernelMap(kernel, self.width, X[chosen], projection)
            # by id, since arrays give a fold no hash
            self._points[id(fold)] = mapping(X).coordinates

    def points(self, fold: Fold) -> np.ndarray:
        return self._points[id(fold)]

    def plain(self) -> list:
        """The Euclidean distance of the coordinates, judged by each fold."""
        judged = []
        for fold in self.folds:
            n_coordinates = self.points(fold).shape[1]
            judged.append(self.judge(np.eye(n_coordinates), fold))
        return judged

    def fits(self, estimator: Any) -> list[tuple[JudgedMetric | None, Any]]:
        """The metric of a method and its certificate for each fold; none if it cannot be fitted."""
        found = []
        for fold in self.folds:
            rows = fold.train[: self.max_rows]
            try:
                L, certificate = fit_linear_map(
                    estimator, self.points(fold)[rows], self.labels[rows], self.seed
                )
            # as in `AutoMetric`: class means that coincide, programs without constraints
            except (ValueError, IndexError, np.linalg.LinAlgError):
                return []
            found.append((self.judge(L, fold), certificate))
        return found

    def blended(
        self,
        found: Mapping[str, list[JudgedMetric]],
        weights: Mapping[str, float],
        n_components: int | None,
    ) -> tuple[KernelMap, np.ndarray]:
        """The map of the blend to coordinates of variance one over the landmarks, and the scales by
        which the blend multiplies these, descending.
        """
        every = np.unique(np.concatenate(self.landmarks))
        parts = []
        for f, (rows, projection) in enumerate(zip(self.landmarks, self.projections, strict=True)):
            factors = [weights[name] ** 0.5 * metrics[f].L for name, metrics in found.items()]
            part = np.zeros((len(every), sum(factor.shape[1] for factor in factors)))
            part[np.searchsorted(every, rows)] = projection @ np.hstack(factors)
            parts.append(part)
        W = np.hstack(parts)
        landmarks = np.ascontiguousarray(to_numpy(self.X)[every], dtype=np.float64)
        mapped = kernel_values(self.kernel, landmarks, landmarks, self.width) @ W
        mapped -= mapped.mean(0)
        values, vectors = np.linalg.eigh(mapped.T @ mapped / len(mapped))
        values = values[::-1]
        vectors = vectors[:, ::-1]
        n_kept = int((values > LEAST_SHARE * values[0]).sum())
        n_kept = min(n_kept, n_components or MAX_COORDINATES)
        scales = values[:n_kept] ** 0.5
        projection = np.ascontiguousarray(W @ vectors[:, :n_kept] / scales)
        return KernelMap(self.kernel, self.width, landmarks, projection), scales
