"""What a visit does to a block, and the engine that makes visits."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from ..core.arrays import float64, is_float
from ..core.vectors import on_host

GROUP = 4  # blocks whose results are joined before they travel; part of the promised bits


class Value(NamedTuple):
    """Stands for the argument of a `Step` with this number."""

    number: int


@dataclass(frozen=True)
class Step:
    """One call of a `Program`."""

    function: Callable
    arguments: tuple
    small: dict[str, Any] = field(default_factory=dict)

    def numbered(self, numbers: dict[int, Value]) -> "Step":
        """The same call with promises replaced by their numbers."""
        arguments = tuple(numbers.get(id(each), each) for each in self.arguments)
        return Step(self.function, arguments, self.small)

    def uses(self) -> list[int]:
        return [each.number for each in self.arguments if isinstance(each, Value)]

    def call(self, values: list) -> Any:
        arguments = [
            values[each.number] if isinstance(each, Value) else each for each in self.arguments
        ]
        return self.function(*arguments, **self.small)


@dataclass(frozen=True)
class Program:
    """What one visit does to each block.

    Values 0, 1, ... are first the inputs, then the results of the steps. Those in ``kept``
    stay with the block; the results of ``requested`` are joined over all blocks.
    """

    steps: tuple[Step, ...]
    kept: tuple[int, ...]
    requested: tuple[Step, ...]
    joins: tuple[Callable, ...]

    def run(self, inputs: Sequence[Any]) -> tuple[tuple, tuple]:
        """(pieces that stay, results to join) of one block."""
        values, calls = list(inputs), (*self.steps, *self.requested)
        last = {number: k for k, step in enumerate(calls) for number in step.uses()}
        results: list = []
        for k, step in enumerate(calls):
            (values if k < len(self.steps) else results).append(step.call(values))
            for number in step.uses():  # free what no later step needs
                if last[number] == k and number not in self.kept:
                    values[number] = None
        return tuple(values[number] for number in self.kept), tuple(on_host(results))

    def join_in_groups(self, results: Iterable[tuple]) -> tuple:
        """Join the results of all blocks; only a few are held at a time."""
        results = iter(results)
        waiting: list[tuple[int, tuple]] = []  # (how often a group was paired, its result)
        for group in iter(lambda: list(islice(results, GROUP)), []):
            depth, joined = 0, join(self.joins, *group)
            while waiting and waiting[-1][0] == depth:
                depth, joined = depth + 1, join(self.joins, waiting.pop()[1], joined)
            waiting.append((depth, joined))
        _, joined = waiting.pop()
        while waiting:
            joined = join(self.joins, waiting.pop()[1], joined)
        return joined


def join(joins: Sequence[Callable], *results: tuple) -> tuple:
    """Join results, one tuple per block or group of blocks, in their order and in float64."""
    first, *others = (tuple(map(_wide, result)) for result in results)
    for other in others:
        first = tuple(combine(a, b) for combine, a, b in zip(joins, first, other, strict=True))
    return first


def _wide(result):
    """In float64, part by part if it is a tuple."""
    if isinstance(result, tuple):
        return tuple(_wide(part) for part in result)
    return float64(result) if is_float(result) else result


class Engine(ABC):
    """Stores blocks and visits them. A *column* holds one piece per block, in a
    form that only its engine knows.

    Dask collections that are fitted within ``with engine:`` are visited by it.
    """

    in_use: ClassVar[ContextVar["Engine | None"]] = ContextVar("engine", default=None)

    def __enter__(self):
        self._token = Engine.in_use.set(self)
        return self

    def __exit__(self, *_):
        Engine.in_use.reset(self._token)

    @abstractmethod
    def source(self, tasks: Sequence[Any]) -> Any:
        """The column that these Dask tasks compute, one per block."""

    @abstractmethod
    def visit(self, program: Program, inputs: Sequence[Any]) -> tuple[list, tuple]:
        """Run ``program`` on every block: (columns that stay, joined results)."""

    @abstractmethod
    def across(self, function: Callable, own: Any, others: Any, small: dict[str, Any]) -> Any:
        """The column of f(... f(f(None, own_i, others_0, 0), own_i, others_1, 1) ...)."""

    @abstractmethod
    def select(self, column: Any, blocks: Sequence[int]) -> Any:
        """The column of these blocks only."""

    @abstractmethod
    def save(self, column: Any, folder: str) -> Any:
        """Write the pieces to files and return a column that no longer depends on its past."""

    @abstractmethod
    def load(self, folder: str, n_blocks: int) -> Any:
        """The column that `save` wrote."""

    @property
    def scratch(self) -> str | None:
        """A folder for `save` if dropping the history of a column is worthwhile."""
        return None
