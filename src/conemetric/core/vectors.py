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


# ---- functions to map and to sum


def same(value: T) -> T:
    """Return the value itself, to sum a vector or to keep it."""
    return value


def clipped(values: Array, lower: Values | None, upper: Values | None) -> Array:
    """Return ``values`` between ``lower`` and ``upper``; None is no bound."""
    xp = namespace(values)
    if lower is None or upper is None or np.ndim(lower) == np.ndim(upper):
        return xp.clip(values, lower, upper)
    # PyTorch takes two numbers or two vectors, not one of each
    return xp.clip(xp.clip(values, lower, None), None, upper)


def magnitude(values: Values) -> Values:
    """Return the largest absolute value of a vector or number."""
    if np.ndim(values):
        return abs(values).max()
    return abs(values)


def minus_least(values: Array) -> Array:
    """Return minus the least value, so that the `greatest` of it finds the least of all blocks."""
    return -values.min()


# ---- reductions


def add(a: Any, b: Any) -> Any:
    """Return the sum of two results, part by part if they are tuples."""
    if isinstance(a, tuple):
        return tuple(map(add, a, b))
    return a + b


def larger(a: Any, b: Any) -> Any:
    """Return the larger of two results, part by part if they are tuples."""
    if isinstance(a, tuple):
        return tuple(map(larger, a, b))
    return np.maximum(a, b)


@dataclass(frozen=True)
class Reduction:
    """A request for ``function`` of every block, combined by ``join`` in the order of the blocks.

    Nothing is computed before `VectorSpace.totals`, which answers several requests in one visit.
    """

    function: Callable[..., Any]
    vectors: tuple[object, ...]
    small: dict[str, Any] = field(
        default_factory=dict
    )  # keyword arguments, the same for all blocks
    join: Callable[[Any, Any], Any] = add


def total(function: Callable[..., Any], /, *vectors: object, **small: object) -> Reduction:
    """Request the sum of ``function`` over the blocks."""
    return Reduction(function, vectors, small)


def greatest(function: Callable[..., Any], /, *vectors: object, **small: object) -> Reduction:
    """Request the largest value of ``function`` over the blocks."""
    return Reduction(function, vectors, small, larger)


# ---- spaces


class VectorSpace(ABC):
    """How to `map` and `sum` functions over vectors, and states to resume from."""

    saves_state = False  # whether a solver should `save_state` now and then

    @abstractmethod
    def map(self, function: Callable[..., T], /, *vectors: object, **small: object) -> T:
        """Return the vector of the results of ``function`` for each block, arrays or tuples of them."""

    @abstractmethod
    def totals(self, *requested: Reduction) -> list[Any]:
        """Return the results of several reductions, from one visit to the blocks."""

    def sum(self, function: Callable[..., Any], /, *vectors: object, **small: object) -> Any:
        """Return the sum of ``function`` over the blocks, on the host: float, array or tuple of them."""
        return self.totals(total(function, *vectors, **small))[0]

    def max(self, function: Callable[..., Any], /, *vectors: object, **small: object) -> Any:
        """Return the largest value of ``function`` over the blocks, in the same form."""
        return self.totals(greatest(function, *vectors, **small))[0]

    def save_state(self, **state: object) -> dict[str, Any]:
        """Save vectors and small values by name, if there is where; return them as read back."""
        return state

    def resume(self, operator: object, *names: str) -> dict[str, Any] | None:
        """Return the state that an earlier process saved under these names for ``operator``, if any."""
        return None


class ArraySpace(VectorSpace):
    """Vectors that are NumPy arrays or PyTorch tensors, whole: one block, with nothing to combine."""

    def map(self, function: Callable[..., T], /, *vectors: object, **small: object) -> T:
        return function(*vectors, **small)

    def totals(self, *requested: Reduction) -> list[Any]:
        results = []
        for reduction in requested:
            results.append(reduction.function(*reduction.vectors, **reduction.small))
        return on_host(results)


ARRAYS = ArraySpace()


# ---- from a device to the host


def on_host(results: object) -> Any:
    """Return a nested tuple or list with its scalars as floats and its arrays in NumPy.

    All tensors come in one transfer: waiting for a device costs more than moving a few numbers.
    """
    if "torch" not in sys.modules:
        return _rebuilt(results, iter(()))
    tensors = list(_tensors(results))
    if not tensors:
        return _rebuilt(results, iter(()))
    xp = namespace(*tensors)
    # one dtype for all, in which float32 and counts are exact
    numbers = xp.cat([tensor.reshape(-1).to(xp.float64) for tensor in tensors]).cpu().numpy()
    ends = np.cumsum([tensor.numel() for tensor in tensors])
    return _rebuilt(results, iter(np.split(numbers, ends[:-1])))


def _tensors(results: Any) -> Iterator[Any]:
    """Yield the tensors of a nested tuple or list, in order."""
    if is_torch(results):
        yield results
    elif type(results) in (tuple, list):
        for part in results:
            yield from _tensors(part)


def _rebuilt(results: Any, fetched: Iterator[np.ndarray]) -> Any:
    """Return ``results`` with its tensors replaced by the next arrays of ``fetched``, and its scalars
    by floats.
    """
    if isinstance(results, float):  # the most frequent case first
        return float(results)
    if type(results) in (tuple, list):
        return type(results)([_rebuilt(part, fetched) for part in results])
    if is_torch(results):
        results = next(fetched).reshape(results.shape)
    if isinstance(results, np.ndarray):
        is_scalar = results.ndim == 0
    else:
        is_scalar = isinstance(results, Number | np.generic)
    if is_scalar:
        return float(results)
    return results
