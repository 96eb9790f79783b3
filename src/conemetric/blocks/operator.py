"""Vectors and operators in many blocks, each with a memory of its own.

A block holds some points, the constraints among them and its part of every vector. The
operator of the blocks is a sum,

    A(M) = one vector per block        A*(u) = sum over the blocks of D x D matrices

so only D x D matrices, Gram matrices and scalars ever leave a block. Mapping a function
over vectors computes nothing yet: the result is a promise. A sum is a *visit* to all
blocks. It computes the promises it needs, in one task per block, keeps those that are
still in use, and joins the results of the blocks in their order: groups of `GROUP`
neighbours first, then pairs of groups, and pairs of those. A block is computed by one
thread, so the same blocks give the same bits on any number of workers.

An engine decides where blocks are and who visits them: `blocks.threads` (this process,
out of core when memory is short, on several devices) or `blocks.cluster`
(dask.distributed). Both run the same `Program` on a block; it is small enough to send,
and frees intermediate results as it goes, which a graph of single Dask tasks would not.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

import numpy as np

from ..core.arrays import float64, like, namespace, zeros
from ..core.vectors import Total, Vector, VectorSpace, on_host, total
from ..operators.base import Operator
from .checkpoint import REMEDY, Checkpoint

__all__ = ["BlockOperator", "BlockSpace", "BlockVector", "Engine", "Program"]

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
    stay with the block; the results of ``wanted`` are joined over all blocks.
    """

    steps: tuple[Step, ...]
    kept: tuple[int, ...]
    wanted: tuple[Step, ...]
    joins: tuple[Callable, ...]

    def run(self, inputs: Sequence[Any]) -> tuple[tuple, tuple]:
        """(pieces that stay, results to join) of one block."""
        values, calls = list(inputs), (*self.steps, *self.wanted)
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
            depth, joined = 0, join(self.joins, group)
            while waiting and waiting[-1][0] == depth:
                depth, joined = depth + 1, join(self.joins, [waiting.pop()[1], joined])
            waiting.append((depth, joined))
        _, joined = waiting.pop()
        while waiting:
            joined = join(self.joins, [waiting.pop()[1], joined])
        return joined


def join(joins: Sequence[Callable], results: Iterable[tuple]) -> tuple:
    """Join results, one tuple per block or group of blocks, in their order and in float64."""
    first, *others = (tuple(map(_wide, result)) for result in results)
    for other in others:
        first = tuple(combine(a, b) for combine, a, b in zip(joins, first, other, strict=True))
    return first


def _wide(result):
    """In float64, part by part if it is a tuple."""
    if isinstance(result, tuple):
        return tuple(_wide(part) for part in result)
    is_float = isinstance(result, np.ndarray) and result.dtype.kind == "f"
    return float64(result) if is_float else result


class Engine(ABC):
    """Where blocks are, and who visits them. A *column* holds one piece per block, in a
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


class Promise:
    """One piece per block: computed (``column``), or still to be computed by ``call``, whose
    arguments are promises or numbers. A ``transient`` one is recomputed by every visit.
    """

    __slots__ = ("call", "column", "transient")

    def __init__(self, call: Step | None = None, column: Any = None, transient: bool = False):
        self.call, self.column, self.transient = call, column, transient

    def needs(self) -> list["Promise"]:
        """The promises it is computed from."""
        if self.call is None:
            return []
        return [each for each in self.call.arguments if isinstance(each, Promise)]


def _mapped(function):
    return lambda self, *others: self.space.map(function, self, *others)


def _mapped_right(function):
    return lambda self, other: self.space.map(function, other, self)


class BlockVector(Vector):
    """The handle of a `Promise`, which is kept as long as its handle is in use."""

    __slots__ = ("__weakref__", "promise", "space")

    def __init__(self, space: "BlockSpace", promise: Promise):
        self.space, self.promise = space, promise
        space.vectors.add(self)

    @property
    def column(self) -> Any:
        """The computed pieces, or None."""
        return self.promise.column

    def astype(self, dtype: Any, copy: bool = True) -> "BlockVector":
        return self.space.map(_astype, self, dtype=dtype)

    __neg__ = _mapped(operator.neg)
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
        self._checkpoint = None if scratch is None else Checkpoint(f"{scratch}/{id(self)}")
        self._resumes = False

    def keep_in(self, folder: str, label: Any) -> None:
        """Save states to this folder from now on; the next solve resumes from what it holds."""
        self._checkpoint, self._resumes = Checkpoint(folder, label), True

    def save_state(self, **state):
        if self._checkpoint is None:
            return state
        vectors = {name: each for name, each in state.items() if isinstance(each, BlockVector)}
        self.compute(*vectors.values())
        small = {name: each for name, each in state.items() if name not in vectors}
        columns = {name: vector.column for name, vector in vectors.items()}
        saved = self._checkpoint.write(self.engine, columns, small)
        return {**state, **self._computed(saved)}

    def resume(self, operator, *names):
        if self._checkpoint is None or not self._resumes:
            return None
        n_blocks = len(self.gather(_size, operator.blocks))
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
            name: self.map(_placed, operator.blocks, vector, name=name)
            for name, vector in self._computed(columns).items()
        }
        self.compute(*vectors.values())
        return {**vectors, **small}

    def _computed(self, columns):
        return {name: self._vector(column=column) for name, column in columns.items()}

    def _vector(self, **how):
        return BlockVector(self, Promise(**how))

    def source(self, tasks: Sequence[Any]) -> BlockVector:
        """The vector that these Dask tasks compute, one per block."""
        return self._vector(column=self.engine.source(tasks))

    def map(self, function, /, *vectors, **small):
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
        return self._vector(column=self.engine.across(function, own.column, others.column, small))

    def select(self, vector: BlockVector, blocks: Sequence[int]) -> BlockVector:
        """The vector of these blocks only."""
        self.compute(vector)
        return self._vector(column=self.engine.select(vector.column, blocks))

    def compute(self, *vectors: BlockVector) -> None:
        """Compute these vectors; they may have different numbers of blocks."""
        for vector in vectors:
            if vector.column is None:
                self.totals(total(_nothing, vector))

    def gather(self, function: Callable, /, *vectors: Any, **small: Any) -> list:
        """What ``function`` returns for each block, in their order, on the host."""
        wanted = Total(_listed, vectors, {"function": function, "small": small}, operator.add)
        return self.totals(wanted)[0]

    def totals(self, *wanted):
        in_blocks = [each for each in wanted if _of_blocks(each.vectors)]
        visited = iter(self._visited(in_blocks) if in_blocks else ())
        return [
            next(visited)
            if _of_blocks(each.vectors)
            else on_host(each.function(*each.vectors, **each.small))
            for each in wanted
        ]

    def _visited(self, wanted):
        """Compute these reductions in one visit."""
        calls = [_step(each.function, each.vectors, each.small) for each in wanted]
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
            tuple(each.join for each in wanted),
        )
        columns, results = self.engine.visit(program, [promise.column for promise in inputs])
        for promise, column in zip(kept, columns, strict=True):
            promise.column = column
        for promise in computed:
            promise.call = None  # lets go of what it was computed from
        return results

    def _still_used(self, computed):
        """Of the promises that a visit computes, those with a handle and those that a later
        visit needs for another vector.
        """
        within = {id(promise) for promise in computed}
        used: set[int] = set()
        seen: set[int] = set()
        stack = [vector.promise for vector in self.vectors]
        while stack:
            promise = stack.pop()
            if id(promise) in within:
                used.add(id(promise))
            elif promise.column is None and id(promise) not in seen:
                seen.add(id(promise))
                stack.extend(promise.needs())
        return [promise for promise in computed if id(promise) in used]


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


class BlockOperator(Operator):
    """A sum of operators, one per block; see the module docstring.

    ``pieces`` holds the operator of each block, all of this ``dtype`` and none without
    constraints; ``n_constraints`` counts those of all blocks.
    """

    xp = np

    def __init__(self, pieces: BlockVector, n_constraints: int, n_features: int, dtype: Any):
        self._blocks = pieces
        self.n_constraints, self.n_features = int(n_constraints), int(n_features)
        self.dtype = np.dtype(dtype)

    @property
    def space(self) -> BlockSpace:
        return self._blocks.space

    @property
    def blocks(self) -> BlockVector:
        return self._blocks

    @property
    def reference(self) -> np.ndarray:
        return np.empty(0, self.dtype)

    def forward(self, M):
        return self.space.map(_forward, self.blocks, M=M)

    def forward_factor(self, L):
        return self.space.map(_forward_factor, self.blocks, L=L)

    def adjoint(self, u):
        return self.adjoint_and(u)[0]

    def adjoint_and(self, u, *wanted):
        adjoint, *results = self.space.totals(total(_adjoint, self.blocks, u), *wanted)
        return adjoint.astype(self.dtype, copy=False), results

    def precise_adjoint(self, u: Any) -> Any:
        return self.space.sum(_precise_adjoint, self.blocks, u).astype(self.dtype, copy=False)

    @property
    def row_sizes(self) -> BlockVector:
        return self.space.map(_row_sizes, self.blocks)

    def subset(self, index):
        raise NotImplementedError("An operator in blocks has no subset by row numbers.")

    def astype(self, dtype):
        if self.dtype == dtype:
            return self
        wider = np.dtype(dtype).itemsize > self.dtype.itemsize  # too large to keep
        make = self.space.recomputed if wider else self.space.map
        pieces = make(_astype, self.blocks, dtype=dtype)
        return BlockOperator(pieces, self.n_constraints, self.n_features, dtype)

    def empty_constraint_vector(self):
        return self.space.map(_empty, self.blocks)

    def constraint_vector(self, values):
        if not isinstance(values, BlockVector):
            raise TypeError(
                f"got {type(values).__name__} for one number per constraint of an operator in "
                "blocks; give a vector of its space."
            )
        return values.astype(self.dtype)


# ---- functions that are mapped and summed over the blocks


def _astype(piece, dtype):
    if isinstance(piece, Operator):
        piece = piece.astype(dtype)
        piece.source = None  # the operator it was rounded from would stay in memory
        return piece
    return like(piece, piece, dtype)


def _forward(piece, M):
    return piece.forward(like(M, piece.reference))


def _forward_factor(piece, L):
    return piece.forward_factor(like(L, piece.reference))


def _adjoint(piece, u):
    return piece.adjoint(u)


def _precise_adjoint(piece, u):
    return piece.precise_adjoint(u)


def _row_sizes(piece):
    return piece.row_sizes + zeros(piece.n_constraints, piece.reference)


def _empty(piece):
    return zeros(piece.n_constraints, piece.reference)


def _size(piece):
    return piece.n_constraints


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

    def __add__(self, other):
        return Listed([*self, *other])


def _listed(*pieces, function, small):
    return Listed([function(*pieces, **small)])
