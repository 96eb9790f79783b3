"""The rank-one learners of a boosted metric, and their margins."""

from collections.abc import Iterable, Mapping

import numpy as np

from ...blocks.checkpoint import REMEDY
from ...core import spectral
from ...core.arrays import Array, like, namespace, take, to_numpy, zeros
from ...engine.operators.base import Operator
from .program import TraceProgram, combined_rows

FEWEST = 32  # learners whose margins are held, also in few dimensions


class Ensemble:
    """M = sum_j w_j z_j z_j': the learners in the order found, and those used in every stage.

    A stage is a range (begin, count) of the lists of numbers and weights; one that extends the
    stage before it begins where that does.
    """

    ARRAYS = "learners", "numbers", "weights", "begins", "counts"

    def __init__(self, operator: Operator):
        self._buffer = zeros((operator.n_features, 16), operator.reference)
        self._n_learners = 0
        self._numbers: list[int] = []
        self._weights: list[float] = []
        self._stages = [(0, 0)]

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All of it, for a checkpoint."""
        begins, counts = np.array(self._stages, np.int64).T.copy()
        arrays = (
            to_numpy(self._buffer[:, : self._n_learners]),
            np.array(self._numbers, np.int64),
            np.array(self._weights, np.float64),
            begins,
            counts,
        )
        return dict(zip(self.ARRAYS, arrays, strict=True))

    @classmethod
    def from_arrays(cls, operator: Operator, arrays: Mapping[str, np.ndarray]) -> "Ensemble":
        """The ensemble that `as_arrays` describes."""
        learners, numbers, weights, begins, counts = (arrays[name] for name in cls.ARRAYS)
        known = len(numbers) == len(weights) and _within(numbers, learners.shape[1])
        if not (known and _are_stages(begins, counts, len(numbers))):
            raise ValueError(f"The learners of the checkpoint do not fit its stages; {REMEDY}")
        ensemble = cls(operator)
        for z in learners.T:
            ensemble.learn(like(z, ensemble._buffer))
        ensemble._numbers = numbers.tolist()
        ensemble._weights = weights.tolist()
        ensemble._stages = list(zip(begins.tolist(), counts.tolist(), strict=True))
        return ensemble

    def _range(self, stage: int = -1) -> slice:
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
        """Tr M, the sum of the weights, since learners have unit length."""
        return float(sum(self.weights))

    @property
    def n_stages(self) -> int:
        """Iterations so far, without the empty start."""
        return len(self._stages) - 1

    def learn(self, z: Array) -> int:
        """Store the direction ``z`` and return its number."""
        number = self._n_learners
        room = self._buffer.shape[1]
        if number == room:  # twice the room, so that copies cost as much as what they store
            larger = zeros((self._buffer.shape[0], 2 * room), self._buffer)
            larger[:, :room] = self._buffer
            self._buffer = larger
        self._buffer[:, number] = z
        self._n_learners += 1
        return number

    def extend(self, z: Array, weight: float) -> None:
        """Begin a stage with one more learner, the others unchanged."""
        self._numbers.append(self.learn(z))
        self._weights.append(weight)
        begin, count = self._stages[-1]
        self._stages.append((begin, count + 1))

    def use(self, numbers: Iterable[int], weights: Iterable[float]) -> None:
        """Begin a stage with these learners and weights."""
        begin = len(self._numbers)
        self._numbers.extend(numbers)
        self._weights.extend(weights)
        self._stages.append((begin, len(self._numbers) - begin))

    def factor(self, stage: int = -1) -> Array:
        """L with M = L L' after iteration ``stage`` (0: the empty start)."""
        used = self._range(stage)
        roots = like(np.sqrt(self._weights[used]), self._buffer)
        return self._buffer[:, self._numbers[used]] * roots


class LearnerMargins:
    """The margins A(z_j z_j') of the learners in use, a row each, for corrective steps."""

    def __init__(self, operator: Operator, ensemble: Ensemble):
        self.operator, self.ensemble = operator, ensemble
        self.limit = max(2 * operator.n_features, FEWEST)
        self._rows: Array | None = None
        self.numbers: list[int] = []
        self.weights: list[float] = []
        if len(ensemble.weights) < self.limit:
            L = ensemble.factor()
            for number, weight, column in zip(ensemble.numbers, ensemble.weights, L.T, strict=True):
                self._append(number, weight, column / weight**0.5)
        else:
            self._load_eigenvectors()

    def _load_eigenvectors(self) -> None:
        """Replace the learners by the eigenvectors of the metric."""
        self._rows = None
        self.numbers = []
        self.weights = []
        # M has at most D of them, half of `limit`: there is room for as many new learners
        for column in spectral.canonical_factor(self.ensemble.factor()).T:
            weight = float((column * column).sum())
            z = column / weight**0.5
            self._append(self.ensemble.learn(z), weight, z)

    def _append(self, number: int, weight: float, z: Array) -> None:
        row = self.operator.forward_factor(z[:, None])
        earlier = []
        if self._rows is not None:
            earlier.append(self._rows)
        self._rows = self.operator.space.map(_stacked, row, *earlier)
        self.numbers.append(number)
        self.weights.append(weight)

    def add(self, z: Array) -> None:
        """Add a learner, with weight zero until the next correction."""
        if len(self.numbers) == self.limit:
            self._load_eigenvectors()
        self._append(self.ensemble.learn(z), 0.0, z)

    def correct(self, problem: TraceProgram, tol: float) -> Array:
        """Re-optimise all weights, drop learners without, and return the margins of the metric."""
        space = self.operator.space
        weights = problem.restricted(self._rows, np.array(self.weights), tol)
        used = np.flatnonzero(weights)
        if len(used) < len(weights):
            self._rows = space.map(take, self._rows, rows=used)
        self.numbers = [self.numbers[j] for j in used]
        self.weights = weights[used].tolist()
        self.ensemble.use(self.numbers, self.weights)
        return space.map(combined_rows, self._rows, weights=weights[used])


def _within(values: np.ndarray, end: int) -> bool:
    """Return whether all values are from 0 to below ``end``."""
    return bool(((values >= 0) & (values < end)).all())


def _are_stages(begins: np.ndarray, counts: np.ndarray, length: int) -> bool:
    """Return whether these are ranges of a list of this length, in order, up to its end."""
    if not len(begins) == len(counts) > 0:
        return False
    ends = begins + counts
    ordered = (begins >= 0).all() and (np.diff(begins) >= 0).all() and (counts >= 0).all()
    return bool(ordered and (ends <= length).all() and ends[-1] == length)


# ---- functions mapped over blocks of margins


def _stacked(row: Array, *rows: Array) -> Array:
    """Return the margins of earlier learners, if there are any, with one more row."""
    return namespace(row).concat([*rows, row[None]])
