"""Where vectors of one entry per constraint live: multipliers, margins, gradients.

Solvers and problems never look into such a vector. They *map* a function over vectors,
which gives another vector, or *sum* one over them, which gives numbers on the host; an
operator says which space its vectors are of (`Operator.space`). Here a vector is one
array, and both verbs just call. In `operators.blocks` it is spread over many memories,
and a sum is a visit to all of them.

A function that is mapped or summed is pure, defined at the top of a module (so that it
can be sent elsewhere) and works on the arrays of one block. A number may stand in the
place of a vector; what is the same for all blocks goes by keyword.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import numpy as np

from .arrays import is_torch, namespace


def same(value):
    """What a vector holds, to be summed or kept as it is."""
    return value


def add(a, b):
    """The sum of two results, part by part where they are tuples."""
    return tuple(map(add, a, b)) if isinstance(a, tuple) else a + b


def larger(a, b):
    """The larger of two results, likewise."""
    return tuple(map(larger, a, b)) if isinstance(a, tuple) else np.maximum(a, b)


@dataclass(frozen=True)
class Total:
    """A reduction still to be made: what ``function`` returns for each block, joined by
    ``join`` in the order of the blocks.
    """

    function: Callable
    vectors: tuple
    small: dict[str, Any] = field(default_factory=dict)
    join: Callable = add


def total(function, /, *vectors, **small):
    """The sum of ``function`` over the blocks, to be asked for together with others."""
    return Total(function, vectors, small)


def greatest(function, /, *vectors, **small):
    """The largest value of ``function`` over the blocks, to be asked for with others."""
    return Total(function, vectors, small, larger)


class Vector:
    """A vector that is not one array. It can be added and scaled."""

    __slots__ = ()


class Space:
    """Two verbs, `map` and `sum`, and `totals` for several sums in one visit."""

    def map(self, function, /, *vectors, **small):
        """The vector of what ``function`` returns for each block.

        It may be an array, or a tuple of arrays: then the result can be handed to later
        calls as one vector, but not be taken apart.
        """
        raise NotImplementedError

    def totals(self, *wanted: Total):
        """The results of several reductions, as a list."""
        raise NotImplementedError

    def sum(self, function, /, *vectors, **small):
        """The sum over the blocks of what ``function`` returns, on the host.

        A scalar comes back as a float, a small array as a NumPy array, a tuple as a
        tuple of those.
        """
        return self.totals(total(function, *vectors, **small))[0]

    def max(self, function, /, *vectors, **small):
        """The largest over the blocks of what ``function`` returns, likewise."""
        return self.totals(greatest(function, *vectors, **small))[0]

    settles = False  # whether a solver should `settle` now and then

    def settle(self, **state):
        """The same state, vectors and small values by name, without the history that led
        to it: saved, where a place for it was given, and read again.
        """
        return state

    def resume(self, operator, *names):
        """What an earlier process settled under these names, to go on from: vectors with
        one entry per constraint of ``operator``, matrices with a row per feature, lists and
        numbers; None where there is nothing.
        """
        return None


class ArraySpace(Space):
    """Vectors that are NumPy arrays or PyTorch tensors, whole."""

    def map(self, function, /, *vectors, **small):
        return function(*vectors, **small)

    def totals(self, *wanted):
        return on_host([each.function(*each.vectors, **each.small) for each in wanted])


ARRAYS = ArraySpace()


def on_host(results):
    """Scalars of a nested tuple or list as floats, arrays as NumPy arrays (from a device
    in one transfer), anything else as it is.
    """
    leaves: list = []
    _collect(results, leaves)
    tensors = [leaf for leaf in leaves if is_torch(leaf)]
    if tensors:
        xp = namespace(*tensors)
        flat = xp.cat([tensor.reshape(-1).to(xp.float64) for tensor in tensors]).cpu().numpy()
        ends = np.cumsum([tensor.numel() for tensor in tensors])
        fetched = iter(
            part.reshape(tensor.shape)
            for part, tensor in zip(np.split(flat, ends[:-1]), tensors, strict=True)
        )
        leaves = [next(fetched) if is_torch(leaf) else leaf for leaf in leaves]
    return _rebuild(results, iter(leaves))


def _collect(results, leaves):
    if type(results) in (tuple, list):
        for part in results:
            _collect(part, leaves)
    else:
        leaves.append(results)


def _rebuild(results, leaves):
    if type(results) in (tuple, list):
        return type(results)(_rebuild(part, leaves) for part in results)
    leaf = next(leaves)
    scalar = isinstance(leaf, Number | np.generic) or (
        isinstance(leaf, np.ndarray) and not leaf.ndim
    )
    return float(leaf) if scalar else leaf
