"""BoostMetric's column generation: one rank-one learner per iteration, with its own weight found
alone or all weights re-optimised.

    minimise P(M) = loss(A(M)) + v Tr M over M = sum_j w_j z_j z_j',  w >= 0,  |z_j| = 1     (problems.trace)
    weak learner   z = leading eigenvector of A*(u),  u = -grad loss(A(M))                   [paper, eq. 24]
    stage-wise     w_J is the root of v - d loss/dw, all earlier weights stay                 [Algorithm 3, eqs. 21, 30]
    corrective     all weights by L-BFGS-B, from those before; zero weights are dropped       [Algorithm 4, Theorem 3.1]

The paper stops when lambda_max(A*(u)) <= v. Stage-wise that need not be the optimum, because
weights that turned out too large never shrink; so near that point (lambda_max < `CLOSE` v), while
the weights alone keep the gap above tol, a corrective step is taken instead.

An iteration costs one adjoint and one rank-one forward, O(nD + pairs); corrective ones also
products with the margins of the learners in use, at most max(2D, 32) of them: beyond that they are
replaced by the eigenvectors of M, which is the same metric.

For a sum of losses the dual value is D of u scaled until it is feasible. For the exponential
program it is the Frank-Wolfe bound, with the gap v Tr M - u'A(M) + Tr M (lambda_max - v)_+, once
lambda_max(A*(u)) - v <= tol v, and minus infinity before; both numbers are in the history, as
``frank_wolfe_gap`` and ``excess``.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np

from ..blocks.checkpoint import REMEDY
from ..core import spectral
from ..core.arrays import like, namespace, to_numpy, zeros
from ..core.vectors import magnitude
from ..problems.trace import MARGIN_LIMIT, combined_rows
from .base import SAVE_EVERY, Iterate, Solver

__all__ = ["ColumnGeneration", "Ensemble", "LearnerMargins", "positive_root"]

SLOPE_TOL = 1e-4  # share of the first slope at which a weight is found
# gap, in units of tol, below which the tighter bound is worth its logarithms: from 10 on iterations
# and times are the same on wine and iris, at 1 the logistic loss takes a fifth more
NEAR = 100.0
INNER_TOL = 0.1  # accuracy of corrective weights, relative to lambda_max - v
CLOSE = 10.0  # lambda_max / v below which weights are corrected if they keep the gap above tol
LONGEST = 8.0  # times the last weight, the next trial while the root is not bracketed
FEWEST = 32  # learners whose margins are held, also in few dimensions


@dataclass(frozen=True)
class ColumnGeneration(Solver):
    """Boosting of rank-one metrics; ``start`` is an `Ensemble` to continue, and the ``state`` of
    the result the ensemble found. With ``corrective``, every iteration re-optimises all weights.
    """

    corrective: bool = False
    requires: ClassVar[str] = "operator v evaluate slope bounds restricted"
    remedy: ClassVar[str] = (
        "raise v, max_iter or tol (with a small v the program may have no minimum, and max_iter "
        "is what regularises)"
    )

    def steps(self, problem: Any, start: Any) -> Iterator[Iterate]:
        operator, v = problem.operator, problem.v
        resumed = operator.space.resume(operator, *Ensemble.ARRAYS)
        if resumed is not None:
            start = Ensemble.from_arrays(operator, **resumed)
        ensemble = Ensemble(operator) if start is None else copy.deepcopy(start)
        margins = operator.forward_factor(ensemble.factor())
        rows, z, lowest, evaluations, corrected = None, None, np.inf, 0, False
        for number in count():
            if number and operator.space.saves_state and number % SAVE_EVERY == 0:
                operator.space.save_state(**ensemble.as_arrays())
                margins, rows = operator.forward_factor(ensemble.factor()), None
            loss, u, captured = problem.evaluate(margins)
            leading, z = spectral.leading_eigenpair(operator.adjoint(u), start=z)
            bounds = problem.bounds(loss, captured, ensemble.trace, leading)
            gap, misfit = bounds.primal - bounds.dual, v * ensemble.trace - captured
            extra = {"frank_wolfe_gap": gap, "excess": bounds.violation}
            extra |= {"learners": len(ensemble.weights), "stage": ensemble.n_stages}
            extra["evaluations"] = evaluations
            if problem.additive:
                dual, multipliers = problem.chord_bound(loss, captured, leading), u
                if bounds.primal - dual <= NEAR * self.tol * abs(bounds.primal):
                    dual = problem.lower_bound(u, leading)
            else:
                dual, multipliers = bounds.dual if bounds.violation <= self.tol else -np.inf, None
            yield Iterate(
                bounds.primal, dual, ensemble.factor(), multipliers, extra=extra, state=ensemble
            )
            if corrected and not bounds.primal < lowest:
                return
            lowest = min(lowest, bounds.primal)
            # v Tr M - u'A(M) is the part of the gap that better weights could close; within tol
            # it is left alone, so that a small v does not change the metric
            worthwhile = leading < CLOSE * v and misfit > self.tol * abs(bounds.primal)
            corrected = self.corrective or worthwhile
            if not corrected:
                h, rows = operator.forward_factor(z[:, None]), None
                weight, evaluations = self._weight(problem, margins, h)
                ensemble.extend(z, weight)
                margins = operator.space.map(_moved, margins, h, weight=weight)
            else:
                rows = LearnerMargins(operator, ensemble) if rows is None else rows
                if bounds.violation > 0:
                    rows.add(z)
                margins = rows.correct(problem, INNER_TOL * max(leading - v, self.tol * v))

    def _weight(self, problem, margins, h):
        """The optimal weight of a learner with margins ``h``, and the number of evaluations."""

        def slope(weight):
            first, second = problem.slope(margins, h, weight)
            return problem.v + first, second

        limit = MARGIN_LIMIT / problem.operator.space.max(magnitude, h)
        return positive_root(slope, limit)


def positive_root(slope: Callable, limit: float, tol: float = SLOPE_TOL) -> tuple[float, int]:
    """Zero of an increasing function that is negative at 0, and the number of evaluations.

    Newton's method inside a bracket, on ``slope``: w -> (value, derivative), until the value is
    below ``tol`` times that at 0. ``limit`` is returned if the function is still negative there.
    """
    value, derivative = slope(0.0)
    if not value < 0:
        return 0.0, 1
    goal, low, high, w, n_evaluations = -tol * value, 0.0, np.inf, 0.0, 1
    # an infinite derivative has overflowed in single precision
    first = min(-value / derivative, limit) if 0 < derivative < np.inf else limit
    while high - low > 4 * np.finfo(float).eps * low:
        newton = w - value / derivative if 0 < derivative < np.inf else np.inf
        if high == np.inf:
            w = min(newton, LONGEST * low, limit) if low > 0 else first
        else:
            w = newton if low < newton < high else 0.5 * (low + high)
        value, derivative = slope(w)
        n_evaluations += 1
        if abs(value) <= goal or (value < 0 and w == limit):
            break
        low, high = (w, high) if value < 0 else (low, w)
    return w, n_evaluations


class Ensemble:
    """M = sum_j w_j z_j z_j': the learners in the order found, and those used in every stage.

    A stage is a range (begin, count) of the lists of numbers and weights; one that extends the
    stage before it begins where that does.
    """

    ARRAYS = "learners", "numbers", "weights", "begins", "counts"

    def __init__(self, operator: Any):
        self._buffer = zeros((operator.n_features, 16), operator.reference)
        self._n_learners = 0
        self._numbers: list[int] = []
        self._weights: list[float] = []
        self._stages = [(0, 0)]

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All of it, for a checkpoint."""
        learners = to_numpy(self._buffer[:, : self._n_learners])
        lists = np.array(self._numbers, np.int64), np.array(self._weights, np.float64)
        stages = np.array(self._stages, np.int64)
        arrays = learners, *lists, stages[:, 0].copy(), stages[:, 1].copy()
        return dict(zip(self.ARRAYS, arrays, strict=True))

    @classmethod
    def from_arrays(
        cls, operator: Any, learners: Any, numbers: Any, weights: Any, begins: Any, counts: Any
    ) -> "Ensemble":
        """The ensemble that `as_arrays` describes."""
        if not (
            len(numbers) == len(weights)
            and ((numbers >= 0) & (numbers < learners.shape[1])).all()
            and len(begins) == len(counts) > 0
            and (begins >= 0).all()
            and (np.diff(begins) >= 0).all()
            and (counts >= 0).all()
            and (begins + counts <= len(numbers)).all()
            and begins[-1] + counts[-1] == len(numbers)
        ):
            raise ValueError(f"The learners of the checkpoint do not fit its stages; {REMEDY}")
        ensemble = cls(operator)
        for z in learners.T:
            ensemble.learn(like(z, ensemble._buffer))
        ensemble._numbers, ensemble._weights = numbers.tolist(), weights.tolist()
        ensemble._stages = list(zip(begins.tolist(), counts.tolist(), strict=True))
        return ensemble

    def _range(self, stage=-1):
        begin, count = self._stages[stage]
        return slice(begin, begin + count)

    @property
    def numbers(self) -> list[int]:
        """Numbers of the learners in use."""
        return self._numbers[self._range()]

    @property
    def weights(self) -> list[float]:
        """Their weights."""
        return self._weights[self._range()]

    @property
    def trace(self) -> float:
        return float(sum(self.weights))

    @property
    def n_stages(self) -> int:
        """Iterations so far, without the empty start."""
        return len(self._stages) - 1

    def learn(self, z: Any) -> int:
        """Store the direction ``z`` and return its number."""
        number, room = self._n_learners, self._buffer.shape[1]
        if number == room:
            larger = zeros((self._buffer.shape[0], 2 * room), self._buffer)
            larger[:, :room] = self._buffer
            self._buffer = larger
        self._buffer[:, number] = z
        self._n_learners += 1
        return number

    def extend(self, z: Any, weight: float) -> None:
        """Begin a stage with one more learner, the others unchanged."""
        self._numbers.append(self.learn(z))
        self._weights.append(weight)
        begin, count = self._stages[-1]
        self._stages.append((begin, count + 1))

    def use(self, numbers: Any, weights: Any) -> None:
        """Begin a stage with these learners and weights."""
        self._stages.append((len(self._numbers), len(numbers)))
        self._numbers += list(numbers)
        self._weights += list(weights)

    def factor(self, stage: int = -1) -> Any:
        """L with M = L L' after iteration ``stage`` (0: the empty start)."""
        used = self._range(stage)
        roots = like(np.sqrt(self._weights[used]), self._buffer)
        return self._buffer[:, self._numbers[used]] * roots


class LearnerMargins:
    """The margins A(z_j z_j') of the learners in use, a row each, for corrective steps."""

    def __init__(self, operator: Any, ensemble: Any):
        self.operator, self.ensemble = operator, ensemble
        self.limit = max(2 * operator.n_features, FEWEST)
        self._rows: Any = None
        self.numbers: list[int] = []
        self.weights: list[float] = []
        L = ensemble.factor()
        if len(ensemble.weights) < self.limit:
            for number, weight, column in zip(ensemble.numbers, ensemble.weights, L.T, strict=True):
                self._append(number, weight, column / weight**0.5)
        else:
            self._load_eigenvectors(L)

    def _load_eigenvectors(self, L):
        """Replace the learners by the eigenvectors of L L'."""
        self._rows, self.numbers, self.weights = None, [], []
        for column in spectral.canonical_factor(L).T:
            weight = float((column * column).sum())
            z = column / weight**0.5
            self._append(self.ensemble.learn(z), weight, z)

    def _append(self, number, weight, z):
        row, space = self.operator.forward_factor(z[:, None]), self.operator.space
        earlier = () if self._rows is None else (self._rows,)
        self._rows = space.map(_stacked, row, *earlier)
        self.numbers.append(number)
        self.weights.append(weight)

    def add(self, z: Any) -> None:
        """Add a learner, with weight zero until the next correction."""
        if len(self.numbers) == self.limit:
            self._load_eigenvectors(self.ensemble.factor())
        self._append(self.ensemble.learn(z), 0.0, z)

    def correct(self, problem: Any, tol: float) -> Any:
        """Re-optimise all weights, drop learners without, and return the margins of the metric."""
        space = self.operator.space
        weights = problem.restricted(self._rows, np.array(self.weights), tol)
        used = np.flatnonzero(weights)
        if len(used) < len(weights):
            self._rows = space.map(_chosen_rows, self._rows, used=used)
        self.numbers, self.weights = [self.numbers[j] for j in used], weights[used].tolist()
        self.ensemble.use(self.numbers, self.weights)
        return space.map(combined_rows, self._rows, weights=weights[used])


# ---- functions mapped over blocks of margins


def _moved(margins, h, weight):
    return margins + weight * h


def _stacked(row, *rows):
    return namespace(row).concat([*rows, row[None]])


def _chosen_rows(rows, used):
    return rows[like(used, rows, namespace(rows).int64)]
