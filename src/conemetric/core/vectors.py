"""Vectors with one entry per constraint: multipliers, margins, gradients.

Solvers and problems never look into such a vector, they *map* and *sum* functions (docs/design.md);
`Operator.space` is the space of an operator's vectors. Here a vector is one array, and both just call
the function. In `blocks.vectors` it is spread over many memories, and a sum is a visit to all of them.

A function that is mapped or summed is pure, defined at the top of a module (so that it can be sent
elsewhere) and works on the arrays of one block. A number may take the place of a vector; arguments
that are the same for all blocks are keywords.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Number
from typing import Any, TypeVar

import numpy as np

from .arrays import Array, Values, is_torch, namespace

T = TypeVar("T")


def same(value: T) -> T:
    """The identity, to sum a vector itself or to keep it."""
    return value


def add(a: Any, b: Any) -> Any:
    """The sum of two results, part by part if they are tuples."""
    return tuple(map(add, a, b)) if isinstance(a, tuple) else a + b


def larger(a: Any, b: Any) -> Any:
    """The larger of two results, part by part if they are tuples."""
    return tuple(map(larger, a, b)) if isinstance(a, tuple) else np.maximum(a, b)


def clipped(values: Array, lower: Values | None, upper: Values | None) -> Array:
    """``values`` between ``lower`` and ``upper``; None is no bound."""
    return namespace(values).clip(values, lower, upper)


def magnitude(values: Values) -> Values:
    """The largest absolute value of a vector or number."""
    return abs(values).max() if np.ndim(values) else abs(values)


def minus_least(values: Array) -> Array:
    """Minus the least value, so that its `greatest` finds the least of all blocks."""
    return -values.min()


@dataclass(frozen=True)
class Total:
    """A pending reduction: ``function`` of each block, combined by ``join`` in their order."""

    function: Callable[..., Any]
    vectors: tuple[object, ...]
    small: dict[str, Any] = field(default_factory=dict)
    join: Callable[[Any, Any], Any] = add


def total(function: Callable[..., Any], /, *vectors: object, **small: object) -> Total:
    """The sum of ``function`` over the blocks, to be computed together with others."""
    return Total(function, vectors, small)


def greatest(function: Callable[..., Any], /, *vectors: object, **small: object) -> Total:
    """The largest value of ``function`` over the blocks, to be computed together with others."""
    return Total(function, vectors, small, larger)


class VectorSpace(ABC):
    """How to `map` and `sum` functions over vectors, and states to resume from."""

    saves_state = False  # whether a solver should `save_state` now and then

    @abstractmethod
    def map(self, function: Callable[..., T], /, *vectors: object, **small: object) -> T:
        """The vector of the results of ``function`` for each block, arrays or tuples of them."""

    @abstractmethod
    def totals(self, *requested: Total) -> list[Any]:
        """The results of several reductions, in one visit to the blocks."""

    def sum(self, function: Callable[..., Any], /, *vectors: object, **small: object) -> Any:
        """The sum of ``function`` over the blocks, on the host: float, array or tuple of those."""
        return self.totals(total(function, *vectors, **small))[0]

    def max(self, function: Callable[..., Any], /, *vectors: object, **small: object) -> Any:
        """The largest value of ``function`` over the blocks, in the same form."""
        return self.totals(greatest(function, *vectors, **small))[0]

    def save_state(self, **state: object) -> dict[str, Any]:
        """Save vectors and small values by name, if there is where; return them as read back."""
        return state

    def resume(self, operator: object, *names: str) -> dict[str, Any] | None:
        """The state that an earlier process saved under these names for ``operator``, or None."""
        return None


class ArraySpace(VectorSpace):
    """Vectors that are NumPy arrays or PyTorch tensors, whole."""

    def map(self, function: Callable[..., T], /, *vectors: object, **small: object) -> T:
        return function(*vectors, **small)

    def totals(self, *requested: Total) -> list[Any]:
        return on_host([each.function(*each.vectors, **each.small) for each in requested])


ARRAYS = ArraySpace()


def on_host(results: object) -> Any:
    """Scalars of a nested tuple or list as floats, arrays in NumPy: from a device in one transfer."""
    tensors = list(_tensors(results)) if "torch" in sys.modules else []
    fetched = []
    if tensors:
        xp = namespace(*tensors)
        flat = xp.cat([tensor.reshape(-1).to(xp.float64) for tensor in tensors]).cpu().numpy()
        fetched = np.split(flat, np.cumsum([tensor.numel() for tensor in tensors])[:-1])
    return _rebuilt(results, iter(fetched))


def _tensors(results: Any) -> Iterator[Any]:
    for part in results if type(results) in (tuple, list) else ():
        yield from _tensors(part)
    if is_torch(results):
        yield results


def _rebuilt(results: Any, fetched: Iterator[np.ndarray]) -> Any:
    if isinstance(results, float):
        return float(results)
    if type(results) in (tuple, list):
        return type(results)([_rebuilt(part, fetched) for part in results])
    leaf = next(fetched).reshape(results.shape) if is_torch(results) else results
    is_array = isinstance(leaf, np.ndarray) and leaf.ndim
    scalar = isinstance(leaf, Number | np.generic | np.ndarray) and not is_array
    return float(leaf) if scalar else leaf
