"""Vectors in blocks: promises of one piece per block, computed by the next visit."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from weakref import WeakSet

import numpy as np

from ..core.arrays import like, namespace
from ..core.vectors import ARRAYS, Reduction, VectorSpace, total
from ..engine.operators.base import Operator
from .checkpoint import REMEDY, Checkpoint
from .program import Engine, Program, Step, Value


@dataclass(slots=True, eq=False)
class Promise:
    """One piece per block: computed (``column``), or still to be computed by ``call``, whose
    arguments are promises or numbers. A ``transient`` one is recomputed by every visit.
    """

    call: Step | None = None
    column: Any = None
    transient: bool = False

    def needs(self) -> list["Promise"]:
        """The promises it is computed from."""
        if self.call is None:
            return []
        return [each for each in self.call.arguments if isinstance(each, Promise)]


def _mapped(function):
    return lambda self, *others: self.space.map(function, self, *others)


def _mapped_right(function):
    return lambda self, other: self.space.map(function, other, self)


class BlockVector:
    """The handle of a `Promise`, which is kept as long as its handle is in use."""

    __slots__ = ("__weakref__", "promise", "space")

    def __init__(self, space: "BlockSpace", promise: Promise):
        self.space, self.promise = space, promise
        space.vectors.add(self)

    def astype(self, dtype: Any, copy: bool = True) -> "BlockVector":
        return self.space.map(astype, self, dtype=dtype)

    __neg__, __pow__ = _mapped(operator.neg), _mapped(operator.pow)
    __add__, __radd__ = _mapped(operator.add), _mapped_right(operator.add)
    __sub__, __rsub__ = _mapped(operator.sub), _mapped_right(operator.sub)
    __mul__, __rmul__ = _mapped(operator.mul), _mapped_right(operator.mul)
    __truediv__, __rtruediv__ = _mapped(operator.truediv), _mapped_right(operator.truediv)


class BlockSpace(VectorSpace):
    """Vectors in the blocks of an engine."""

    saves_state = True

    def __init__(self, engine: Engine):
        self.engine = engine
        self.vectors: WeakSet[BlockVector] = WeakSet()  # those in use
        scratch = self.engine.scratch
        self._checkpoint = None if scratch is None else Checkpoint(f"{scratch}/{id(self)}", {})
        self._resumes = False

    def keep_in(self, folder: str, label: dict[str, Any]) -> None:
        """Save states to this folder from now on; the next solve resumes from what it holds."""
        self._checkpoint, self._resumes = Checkpoint(folder, label), True

    def save_state(self, **state: Any) -> dict[str, Any]:
        if self._checkpoint is None:
            return state
        vectors = {name: each for name, each in state.items() if isinstance(each, BlockVector)}
        self.compute(*vectors.values())
        small = {name: each for name, each in state.items() if name not in vectors}
        columns = {name: vector.promise.column for name, vector in vectors.items()}
        saved = self._checkpoint.write(self.engine, columns, small)
        return {**state, **{name: self._vector(column=each) for name, each in saved.items()}}

    def resume(self, operator: Any, *names: str) -> dict[str, Any] | None:
        if self._checkpoint is None or not self._resumes:
            return None
        n_blocks = len(self.gather(attrgetter("n_constraints"), operator.blocks))
        found = self._checkpoint.read(self.engine, names, n_blocks)
        if found is None:
            return None
        columns, small = found
        for name, value in small.items():
            if np.ndim(value) == 2 and len(value) != operator.n_features:
                raise ValueError(
                    f"{name!r} of the checkpoint has {len(value)} rows for the "
                    f"{operator.n_features} features of X; {REMEDY}"
                )
        vectors = {
            name: self.map(_placed, operator.blocks, self._vector(column=column), name=name)
            for name, column in columns.items()
        }
        self.compute(*vectors.values())
        return {**vectors, **small}

    def _vector(self, **how):
        return BlockVector(self, Promise(**how))

    def source(self, tasks: Sequence[Any]) -> BlockVector:
        """The vector that these Dask tasks compute, one per block."""
        return self._vector(column=self.engine.source(tasks))

    def map(self, function: Callable, /, *vectors: Any, **small: Any) -> Any:
        if not _of_blocks(vectors):
            return function(*vectors, **small)
        return self._vector(call=_step(function, vectors, small))

    def recomputed(self, function: Callable, /, *vectors: Any, **small: Any) -> BlockVector:
        """Like `map`, but recomputed by every visit that needs it, and never kept."""
        return self._vector(call=_step(function, vectors, small), transient=True)

    def across(
        self, function: Callable, /, own: BlockVector, others: BlockVector, **small: Any
    ) -> BlockVector:
        """The vector of f(... f(f(None, own_i, others_0, 0), own_i, others_1, 1) ...): what
        each block makes of all blocks.
        """
        self.compute(own, others)
        columns = own.promise.column, others.promise.column
        return self._vector(column=self.engine.across(function, *columns, small))

    def select(self, vector: BlockVector, blocks: Sequence[int]) -> BlockVector:
        """The vector of these blocks only."""
        self.compute(vector)
        return self._vector(column=self.engine.select(vector.promise.column, blocks))

    def compute(self, *vectors: BlockVector) -> None:
        """Compute these vectors; they may have different numbers of blocks."""
        for vector in vectors:
            if vector.promise.column is None:
                self.totals(total(_nothing, vector))

    def gather(self, function: Callable, /, *vectors: Any, **small: Any) -> list:
        """What ``function`` returns for each block, in their order, on the host."""
        requested = Reduction(
            _listed, vectors, {"function": function, "small": small}, operator.add
        )
        return self.totals(requested)[0]

    def totals(self, *requested: Reduction) -> list:
        in_blocks = [each for each in requested if _of_blocks(each.vectors)]
        visited = iter(self._visited(in_blocks) if in_blocks else ())
        return [
            next(visited) if _of_blocks(each.vectors) else ARRAYS.totals(each)[0]
            for each in requested
        ]

    def _visited(self, requested):
        """Compute these reductions in one visit."""
        calls = [_step(each.function, each.vectors, each.small) for each in requested]
        order = _in_order_of_need([each for call in calls for each in Promise(call).needs()])
        inputs = [promise for promise in order if promise.column is not None]
        missing = [promise for promise in order if promise.column is None]
        numbers = {id(promise): Value(k) for k, promise in enumerate(inputs + missing)}
        computed = [promise for promise in missing if not promise.transient]
        kept = self._still_used(computed)
        program = Program(
            tuple(promise.call.numbered(numbers) for promise in missing),
            tuple(numbers[id(promise)].number for promise in kept),
            tuple(call.numbered(numbers) for call in calls),
            tuple(each.join for each in requested),
        )
        columns, results = self.engine.visit(program, [promise.column for promise in inputs])
        for promise, column in zip(kept, columns, strict=True):
            promise.column = column
        for promise in computed:
            promise.call = None  # so that what it was computed from can be freed
        return results

    def _still_used(self, computed):
        """Of the promises that a visit computes, those with a handle or that a later visit needs."""
        within = {id(promise) for promise in computed}
        seen: set[int] = set()
        stack = [vector.promise for vector in self.vectors]
        while stack:
            promise = stack.pop()
            if promise.column is None and id(promise) not in seen:
                seen.add(id(promise))
                stack.extend(() if id(promise) in within else promise.needs())
        return [promise for promise in computed if id(promise) in seen]


def _of_blocks(vectors):
    return any(isinstance(each, BlockVector) for each in vectors)


def _step(function, vectors, small):
    arguments = (each.promise if isinstance(each, BlockVector) else each for each in vectors)
    return Step(function, tuple(arguments), small)


def _in_order_of_need(promises):
    """These promises and those they are computed from, each after the ones it needs."""
    order: dict[int, Promise] = {}
    stack = [(promise, False) for promise in reversed(promises)]
    while stack:
        promise, ready = stack.pop()
        if id(promise) in order:
            continue
        if ready or promise.column is not None:
            order[id(promise)] = promise
            continue
        stack.append((promise, True))
        stack.extend((each, False) for each in reversed(promise.needs()))
    return list(order.values())


# ---- functions that are mapped and summed over the blocks


def astype(piece: Any, dtype: Any) -> Any:
    """An array, or an operator, in another precision."""
    reference = piece.reference if isinstance(piece, Operator) else piece
    dtype = getattr(namespace(reference), np.dtype(dtype).name)  # that of the library of the block
    if isinstance(piece, Operator):
        piece = piece.astype(dtype)
        piece.source = None  # the operator it was rounded from would stay in memory
        return piece
    return like(piece, piece, dtype)


def _placed(piece, values, name):
    """Values from a file, on the device of the piece."""
    if values.shape != (piece.n_constraints,):
        raise ValueError(
            f"{name!r} of the checkpoint has the shape {values.shape} in a block of "
            f"{piece.n_constraints} constraints; {REMEDY}"
        )
    values = namespace(piece.reference).asarray(values)  # in its own precision
    return like(values, piece.reference, values.dtype)


def _nothing(piece):
    return 0.0


class Listed(list):
    """A list of one result per block, which `on_host` leaves as it is."""


def _listed(*pieces, function, small):
    return Listed([function(*pieces, **small)])
