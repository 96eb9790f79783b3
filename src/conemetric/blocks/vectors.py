"""Vectors in blocks: promises of one piece per block, computed by the next visit."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any
from weakref import WeakSet

import numpy as np

from ..core.arrays import like, namespace
from ..core.vectors import ARRAYS, Reduction, VectorSpace, total
from ..engine.operators.base import Operator
from .checkpoint import REMEDY, Checkpoint
from .visits import Call, Engine, Place, Visit


@dataclass(slots=True, eq=False)
class Promise:
    """One piece per block: computed (``column``), or still to be computed by ``call``, whose
    arguments are promises or numbers. A ``transient`` one is recomputed by every visit.
    """

    call: Call | None = None
    column: Any = None
    transient: bool = False

    def needs(self) -> list["Promise"]:
        """The promises it is computed from."""
        if self.call is None:
            return []
        return [each for each in self.call.arguments if isinstance(each, Promise)]


def _mapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of a vector that maps this operator over the blocks."""
    return lambda self, *others: self.space.map(function, self, *others)


def _mapped_right(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same with the vector on the right."""
    return lambda self, other: self.space.map(function, other, self)


class BlockVector:
    """The handle of a `Promise`, which is kept as long as its handle is in use."""

    __slots__ = ("__weakref__", "promise", "space")

    def __init__(self, space: "BlockSpace", promise: Promise):
        self.space = space
        self.promise = promise
        space.vectors.add(self)

    def astype(self, dtype: Any, copy: bool = True) -> "BlockVector":
        return self.space.map(astype, self, dtype=dtype)

    __neg__ = _mapped(operator.neg)
    __pow__ = _mapped(operator.pow)
    __add__ = _mapped(operator.add)
    __radd__ = _mapped_right(operator.add)
    __sub__ = _mapped(operator.sub)
    __rsub__ = _mapped_right(operator.sub)
    __mul__ = _mapped(operator.mul)
    __rmul__ = _mapped_right(operator.mul)
    __truediv__ = _mapped(operator.truediv)
    __rtruediv__ = _mapped_right(operator.truediv)


class BlockSpace(VectorSpace):
    """Vectors in the blocks of an engine."""

    saves_state = True

    def __init__(self, engine: Engine):
        self.engine = engine
        self.vectors: WeakSet[BlockVector] = WeakSet()  # those in use
        self._checkpoint: Checkpoint | None = None
        self._resumes = False
        # states are saved even if the user names no folder: the blocks of a worker that dies are
        # then computed from the last state on, not from the first iteration
        if engine.scratch is not None:
            self._checkpoint = Checkpoint(f"{engine.scratch}/{id(self)}", {})

    def keep_in(self, folder: str, label: dict[str, Any]) -> None:
        """Save states to this folder from now on; the next solve resumes from what it holds."""
        self._checkpoint = Checkpoint(folder, label)
        self._resumes = True

    def save_state(self, **state: Any) -> dict[str, Any]:
        if self._checkpoint is None:
            return state
        columns = {}
        small = {}
        for name, value in state.items():
            if isinstance(value, BlockVector):
                self.compute(value)
                columns[name] = value.promise.column
            else:
                small[name] = value
        saved = self._checkpoint.write(self.engine, columns, small)
        for name, column in saved.items():
            state[name] = self._vector(column=column)
        return state

    def resume(self, operator: Any, *names: str) -> dict[str, Any] | None:
        if self._checkpoint is None or not self._resumes:
            return None
        # the blocks of now: their shapes are compared with those in the files
        n_blocks = len(self.gather(attrgetter("n_constraints"), operator.blocks))
        stored = self._checkpoint.read(self.engine, names, n_blocks)
        if stored is None:
            return None
        columns, small = stored
        for name, value in small.items():
            if np.ndim(value) == 2 and len(value) != operator.n_features:
                raise ValueError(
                    f"{name!r} of the checkpoint has {len(value)} rows for the "
                    f"{operator.n_features} features of X; {REMEDY}"
                )
        state = dict(small)
        for name, column in columns.items():
            values = self._vector(column=column)
            state[name] = self.map(_placed, operator.blocks, values, name=name)
            self.compute(state[name])
        return state

    def _vector(
        self, *, call: Call | None = None, column: Any = None, transient: bool = False
    ) -> BlockVector:
        return BlockVector(self, Promise(call, column, transient))

    def source(self, tasks: Sequence[Any]) -> BlockVector:
        """The vector that these Dask tasks compute, one per block."""
        return self._vector(column=self.engine.source(tasks))

    def map(self, function: Callable, /, *vectors: Any, **small: Any) -> Any:
        if not _of_blocks(vectors):
            return function(*vectors, **small)
        return self._vector(call=_call(function, vectors, small))

    def recomputed(self, function: Callable, /, *vectors: Any, **small: Any) -> BlockVector:
        """Like `map`, but recomputed by every visit that needs it, and never kept."""
        return self._vector(call=_call(function, vectors, small), transient=True)

    def across(
        self, function: Callable, /, own: BlockVector, others: BlockVector, **small: Any
    ) -> BlockVector:
        """The vector of f(... f(f(None, own_i, others_0, 0), own_i, others_1, 1) ...): what
        each block makes of all blocks.
        """
        self.compute(own, others)
        column = self.engine.across(function, own.promise.column, others.promise.column, small)
        return self._vector(column=column)

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
        arguments = {"function": function, "small": small}
        requested = Reduction(_listed, vectors, arguments, join=operator.add)
        return self.totals(requested)[0]

    def totals(self, *requested: Reduction) -> list:
        in_blocks = [reduction for reduction in requested if _of_blocks(reduction.vectors)]
        visited: Iterator[Any] = iter(())
        if in_blocks:
            visited = iter(self._visited(in_blocks))
        results = []
        for reduction in requested:
            if _of_blocks(reduction.vectors):
                results.append(next(visited))
            else:
                results.append(ARRAYS.totals(reduction)[0])
        return results

    def _visited(self, requested: Sequence[Reduction]) -> tuple[Any, ...]:
        """Compute these reductions in one visit."""
        promises = []
        for reduction in requested:
            promises.append(Promise(_call(reduction.function, reduction.vectors, reduction.small)))
        order = _in_order_of_need(promises)
        inputs = [promise for promise in order if promise.column is not None]
        missing = [promise for promise in order if promise.column is None]
        places = {}
        for number, promise in enumerate(inputs + missing):
            places[id(promise)] = Place(number)
        computed = [promise for promise in missing if not promise.transient]
        kept = self._still_used(computed)
        visit = Visit(
            calls=_calls(missing, places),
            kept=tuple(places[id(promise)].number for promise in kept),
            requested=_calls(promises, places),
            joins=tuple(reduction.join for reduction in requested),
        )
        columns, results = self.engine.visit(visit, [promise.column for promise in inputs])
        for promise, column in zip(kept, columns, strict=True):
            promise.column = column
        for promise in computed:
            promise.call = None  # so that what it was computed from can be freed
        return results

    def _still_used(self, computed: list[Promise]) -> list[Promise]:
        """Return those of the promises that have a handle, or that a later visit needs."""
        within = {id(promise) for promise in computed}
        seen: set[int] = set()
        stack = [vector.promise for vector in self.vectors]
        while stack:
            promise = stack.pop()
            if promise.column is not None or id(promise) in seen:
                continue
            seen.add(id(promise))
            if id(promise) not in within:
                stack.extend(promise.needs())
        return [promise for promise in computed if id(promise) in seen]


def _of_blocks(vectors: Sequence[Any]) -> bool:
    """Return whether one of these is a vector in blocks."""
    return any(isinstance(vector, BlockVector) for vector in vectors)


def _call(function: Callable[..., Any], vectors: Sequence[Any], small: dict[str, Any]) -> Call:
    """Return the call of a function for the pieces of these vectors."""
    arguments = []
    for vector in vectors:
        if isinstance(vector, BlockVector):
            arguments.append(vector.promise)
        else:
            arguments.append(vector)
    return Call(function, tuple(arguments), small)


def _calls(promises: Sequence[Promise], places: dict[int, Place]) -> tuple[Call, ...]:
    """Return the calls that keep these promises, as a visit makes them."""
    calls = []
    for promise in promises:
        assert promise.call is not None
        calls.append(promise.call.with_places(places))
    return tuple(calls)


def _in_order_of_need(promises: Sequence[Promise]) -> list[Promise]:
    """Return what the promises are computed from, each after the ones it needs itself."""
    order: dict[int, Promise] = {}
    # (promise, whether all it needs is in order); depth first, without recursion: chains can be long
    stack: list[tuple[Promise, bool]] = []
    for promise in reversed(promises):
        stack.extend((needed, False) for needed in reversed(promise.needs()))
    while stack:
        promise, is_ready = stack.pop()
        if id(promise) in order:
            continue
        if is_ready or promise.column is not None:
            order[id(promise)] = promise
            continue
        stack.append((promise, True))
        stack.extend((needed, False) for needed in reversed(promise.needs()))
    return list(order.values())


# ---- functions that are mapped and summed over the blocks


def astype(piece: Any, dtype: Any) -> Any:
    """An array, or an operator, in another precision."""
    reference = piece
    if isinstance(piece, Operator):
        reference = piece.reference
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


class PerBlock(list[Any]):
    """A list of one result per block, which `on_host` leaves as it is."""


def _listed(*pieces, function, small):
    return PerBlock([function(*pieces, **small)])
