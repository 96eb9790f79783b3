"""What a visit does to each block, and the engine that makes visits."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Self

from ..core.arrays import float64, is_float
from ..core.vectors import on_host

GROUP = 4  # blocks whose results are joined before they travel; part of the promised bits


@dataclass(frozen=True)
class Call:
    """A call for each block. Its arguments are promises, which a `Visit` replaces by the places of
    their values, or anything else, which is the same for all blocks.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    small: dict[str, Any] = field(default_factory=dict)

    def with_places(self, places: dict[int, "Place"]) -> "Call":
        """Return the same call with promises, which ``places`` knows by their id, replaced."""
        arguments = []
        for argument in self.arguments:
            arguments.append(places.get(id(argument), argument))
        return Call(self.function, tuple(arguments), self.small)

    def uses(self) -> list[int]:
        """Return the places of the values that it takes."""
        return [each.number for each in self.arguments if isinstance(each, Place)]

    def result(self, values: Sequence[Any]) -> Any:
        """Return the result for the values of one block."""
        arguments = []
        for argument in self.arguments:
            if isinstance(argument, Place):
                argument = values[argument.number]
            arguments.append(argument)
        return self.function(*arguments, **self.small)


class Place(NamedTuple):
    """Stands for the value of this number among those of a visit to a block."""

    number: int


@dataclass(frozen=True)
class Visit:
    """What one visit does to each block.

    Values 0, 1, ... are first the inputs, then the results of ``calls``. Those in ``kept`` stay with
    the block; the results of ``requested`` are joined over all blocks by ``joins``.
    """

    calls: tuple[Call, ...]
    kept: tuple[int, ...]
    requested: tuple[Call, ...]
    joins: tuple[Callable[[Any, Any], Any], ...]

    def run(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the pieces that stay with a block, and its results, to be joined."""
        last_use = self._last_uses()
        values = list(inputs)
        results: list[Any] = []
        for number, call in enumerate((*self.calls, *self.requested)):
            result = call.result(values)
            if number < len(self.calls):
                values.append(result)
            else:
                results.append(result)
            for place in call.uses():  # free what no later call needs
                if last_use[place] == number and place not in self.kept:
                    values[place] = None
        pieces = tuple(values[place] for place in self.kept)
        return pieces, tuple(on_host(results))

    def _last_uses(self) -> dict[int, int]:
        """Return the number of the last call that takes each value."""
        last_use = {}
        for number, call in enumerate((*self.calls, *self.requested)):
            for place in call.uses():
                last_use[place] = number
        return last_use

    def join_in_groups(self, results: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Join the results of all blocks; only a few are held at a time.

        Groups are paired, and pairs again, in an order that depends on the number of blocks only.
        """
        waiting: list[
            tuple[int, tuple[Any, ...]]
        ] = []  # (how often a group was paired, its result)
        for group in _groups(results):
            depth = 0
            joined = join(self.joins, *group)
            while waiting and waiting[-1][0] == depth:
                depth += 1
                joined = join(self.joins, waiting.pop()[1], joined)
            waiting.append((depth, joined))
        _, joined = waiting.pop()
        while waiting:
            joined = join(self.joins, waiting.pop()[1], joined)
        return joined


def _groups(results: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the results, `GROUP` at a time."""
    results = iter(results)
    while group := list(islice(results, GROUP)):
        yield group


def join(joins: Sequence[Callable[[Any, Any], Any]], *results: tuple[Any, ...]) -> tuple[Any, ...]:
    """Join results, one tuple per block or group of blocks, in their order and in float64."""
    # blocks may be in single precision, and sums over many of them would lose digits
    first, *others = results
    joined = [_wide(part) for part in first]
    for other in others:
        for number, (combine, part) in enumerate(zip(joins, other, strict=True)):
            joined[number] = combine(joined[number], _wide(part))
    return tuple(joined)


def _wide(result: Any) -> Any:
    """Return it in float64, part by part if it is a tuple."""
    if isinstance(result, tuple):
        return tuple(map(_wide, result))
    if is_float(result):
        return float64(result)
    return result


class Engine(ABC):
    """Stores blocks and visits them. A *column* holds one piece per block, in a
    form that only its engine knows.

    Dask collections that are fitted within ``with engine:`` are visited by it.
    """

    in_use: ClassVar[ContextVar["Engine | None"]] = ContextVar("engine", default=None)

    def __enter__(self) -> Self:
        self._token: Token[Engine | None] = Engine.in_use.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        Engine.in_use.reset(self._token)

    @abstractmethod
    def source(self, tasks: Sequence[Any]) -> Any:
        """The column that these Dask tasks compute, one per block."""

    @abstractmethod
    def visit(self, visit: Visit, inputs: Sequence[Any]) -> tuple[list, tuple]:
        """Make a visit to every block; return the columns that stay, and the joined results."""

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
