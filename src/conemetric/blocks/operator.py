"""Vectors and operators in many blocks, each with a memory of its own.

A block holds some points, the constraints among them and its part of every vector. An
operator of blocks is a sum,

    A(M) = one vector per block        A*(u) = sum over the blocks of D x D matrices

so that only D x D matrices, Gram matrices and scalars ever leave a block. Mapping a
function over vectors does nothing yet: the result is a promise. A sum is a *visit* to
all blocks: it computes, in one task per block, the promises it needs, keeps those that
somebody still holds, and joins what the blocks return in their order: groups of
`GROUP` neighbours first, then pairs of groups, and pairs of those. A block is computed by
one thread, so that the same blocks give the same bits on any number of workers.

Where blocks are and who visits them is the business of an engine: `operators.in_process`
(this process, out of core where memory is short, on several devices) or
`operators.cluster` (dask.distributed).
"""

import operator
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.arrays import float64, like, namespace, zeros
from ..core.vectors import Space, Total, Vector, on_host, total
from ..operators.base import Operator
from .checkpoint import REMEDY, Checkpoint

GROUP = 4  # blocks whose results are joined first, before they travel


class Value(NamedTuple):
    """In the place of an argument: the value of this number."""

    number: int


@dataclass(frozen=True)
class Step:
    """One call of a `Program`."""

    function: Callable
    arguments: tuple
    small: dict[str, Any] = field(default_factory=dict)

    def numbered(self, numbers):
        """With the numbers of vectors in the place of the vectors."""
        arguments = tuple(numbers.get(id(each), each) for each in self.arguments)
        return Step(self.function, arguments, self.small)

    def uses(self):
        return [each.number for each in self.arguments if isinstance(each, Value)]

    def call(self, values):
        arguments = [
            values[each.number] if isinstance(each, Value) else each for each in self.arguments
        ]
        return self.function(*arguments, **self.small)


@dataclass(frozen=True)
class Program:
    """What one visit does to a block: the same for all of them, and small enough to send.

    Values 0, 1, ... are first the inputs, then the results of the steps; those in ``kept``
    stay with the block, the results of ``wanted`` are joined over all blocks.
    """

    n_inputs: int
    steps: tuple[Step, ...]
    kept: tuple[int, ...]
    wanted: tuple[Step, ...]
    joins: tuple[Callable, ...]

    def run(self, inputs: Sequence[Any]) -> tuple[tuple, tuple]:
        """(pieces that stay, results to be joined) of one block."""
        values, calls = list(inputs), (*self.steps, *self.wanted)
        last = {number: k for k, step in enumerate(calls) for number in step.uses()}
        results: list = []
        for k, step in enumerate(calls):
            (values if k < len(self.steps) else results).append(step.call(values))
            for number in step.uses():  # let go of what nobody needs any more
                if last[number] == k and number not in self.kept:
                    values[number] = None
        return tuple(values[number] for number in self.kept), tuple(on_host(results))

    def join(self, results: Iterable[tuple]) -> tuple:
        """Join results, one tuple per block or group of blocks, in their order."""
        joined: tuple | None = None
        for result in results:
            result = tuple(_wide(part) for part in result)
            if joined is None:
                joined = result
            else:
                joined = tuple(
                    join(a, b) for join, a, b in zip(self.joins, joined, result, strict=True)
                )
        assert joined is not None
        return joined

    def join_in_groups(self, results: Iterable[tuple]) -> tuple:
        """As all engines join the results of the blocks; few wait at a time."""
        results = iter(results)
        waiting: list[tuple[int, tuple]] = []  # how often a group was paired, and its result
        for group in iter(lambda: list(islice(results, GROUP)), []):
            depth, joined = 0, self.join(group)
            while waiting and waiting[-1][0] == depth:
                depth, joined = depth + 1, self.join([waiting.pop()[1], joined])
            waiting.append((depth, joined))
        _, joined = waiting.pop()
        while waiting:
            joined = self.join([waiting.pop()[1], joined])
        return joined


def _wide(result):
    """In float64, part by part where it is a tuple."""
    if isinstance(result, tuple):
        return tuple(_wide(part) for part in result)
    return (
        float64(result) if isinstance(result, np.ndarray) and result.dtype.kind == "f" else result
    )


class Engine(ABC):
    """Where blocks are, and who visits them. A *column* is one piece per block, in a form
    that only its engine knows.

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
        """The column of what these dask tasks compute, made anew whenever it is needed."""

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
    def n_blocks_of(self, column: Any) -> int:
        """How many pieces a column has."""

    @abstractmethod
    def save(self, column: Any, folder: str) -> Any:
        """Write the pieces to files and return a column that does without what made them."""

    @abstractmethod
    def load(self, folder: str, n_blocks: int) -> Any:
        """The column that `save` wrote."""

    @property
    def scratch(self) -> str | None:
        """A folder for `save` where history is worth cutting."""
        return None


class BlockVector(Vector):
    """One piece per block, or the promise of it; see the module docstring."""

    __slots__ = ("__weakref__", "call", "column", "space", "transient")

    def __init__(self, space, call=None, column=None, transient=False):
        self.space: BlockSpace = space
        self.call: Step | None = call
        self.column = column
        self.transient = transient

    def astype(self, dtype, copy=True):
        return self.space.map(_astype, self, dtype=dtype)

    def __neg__(self):
        return self.space.map(operator.neg, self)

    def __add__(self, other):
        return self.space.map(operator.add, self, other)

    def __radd__(self, other):
        return self.space.map(operator.add, other, self)

    def __sub__(self, other):
        return self.space.map(operator.sub, self, other)

    def __rsub__(self, other):
        return self.space.map(operator.sub, other, self)

    def __mul__(self, other):
        return self.space.map(operator.mul, self, other)

    def __rmul__(self, other):
        return self.space.map(operator.mul, other, self)

    def __truediv__(self, other):
        return self.space.map(operator.truediv, self, other)

    def __rtruediv__(self, other):
        return self.space.map(operator.truediv, other, self)


class BlockSpace(Space):
    """Vectors in the blocks of an engine."""

    settles = True

    def __init__(self, engine: Engine):
        self.engine = engine
        scratch = self.engine.scratch
        self._checkpoint = None if scratch is None else Checkpoint(f"{scratch}/{id(self)}")
        self._resumes = False

    def keep_in(self, folder: str, label: Any):
        """Settle in this folder from now on; the next solve goes on from what is there."""
        self._checkpoint, self._resumes = Checkpoint(folder, label), True

    def settle(self, **state):
        if self._checkpoint is None:
            return state
        vectors = {name: each for name, each in state.items() if isinstance(each, BlockVector)}
        self.compute(*vectors.values())
        small = {name: each for name, each in state.items() if name not in vectors}
        columns = {name: vector.column for name, vector in vectors.items()}
        saved = self._checkpoint.write(self.engine, columns, small)
        return {**state, **self._vectors(saved)}

    def resume(self, operator, *names):
        if self._checkpoint is None or not self._resumes:
            return None
        n_blocks = len(self.gather(_size, operator.pieces))
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
            name: self.map(_placed, operator.pieces, vector, name=name)
            for name, vector in self._vectors(columns).items()
        }
        self.compute(*vectors.values())
        return {**vectors, **small}

    def _vectors(self, columns):
        return {name: BlockVector(self, column=column) for name, column in columns.items()}

    def source(self, tasks):
        """The vector of what these dask tasks compute, one for each block."""
        return BlockVector(self, column=self.engine.source(tasks))

    def map(self, function, /, *vectors, **small):
        if not _of_blocks(vectors):
            return function(*vectors, **small)
        return BlockVector(self, Step(function, vectors, small))

    def passing(self, function, /, *vectors, **small):
        """As `map`, but computed anew in every visit that needs it, and never kept."""
        return BlockVector(self, Step(function, vectors, small), transient=True)

    def across(self, function, /, own, others, **small):
        """The vector of f(... f(f(None, own_i, others_0, 0), own_i, others_1, 1) ...): what
        a block makes of all blocks.
        """
        self.compute(own, others)
        return BlockVector(
            self, column=self.engine.across(function, own.column, others.column, small)
        )

    def select(self, vector, blocks):
        """The vector of these blocks only."""
        self.compute(vector)
        return BlockVector(self, column=self.engine.select(vector.column, blocks))

    def compute(self, *vectors):
        """Keep what these promise; they need not have as many blocks as each other."""
        for vector in vectors:
            if vector.column is None:
                self.totals(total(_nothing, vector))

    def gather(self, function, /, *vectors, **small):
        """What ``function`` returns for each block, a list in their order, on the host."""
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
        program, inputs, promises = self._plan(wanted)
        columns, results = self.engine.visit(program, inputs)
        for promise, column in zip(promises, columns, strict=True):
            vector = promise()
            if vector is not None:
                vector.column = column
        return results

    def _plan(self, wanted):
        """The program of a visit, its input columns, and references to the vectors whose
        pieces stay.
        """
        order = _in_order_of_need([vector for each in wanted for vector in each.vectors])
        inputs = [vector for vector in order if vector.column is not None]
        promised = [vector for vector in order if vector.column is None]
        number = {id(vector): Value(k) for k, vector in enumerate(inputs + promised)}

        steps = tuple(vector.call.numbered(number) for vector in promised)
        asked = tuple(
            Step(each.function, each.vectors, each.small).numbered(number) for each in wanted
        )
        columns = [vector.column for vector in inputs]
        # of the promises that this visit fulfils, those live on that are held elsewhere
        # than by each other
        fulfilled = [vector for vector in promised if not vector.transient]
        references = [weakref.ref(vector) for vector in fulfilled]
        places = [number[id(vector)].number for vector in fulfilled]
        vector = None  # there may be none
        for vector in fulfilled:
            vector.call = None
        del vector, order, inputs, promised, fulfilled
        alive = [k for k, reference in enumerate(references) if reference() is not None]
        program = Program(
            len(columns),
            steps,
            tuple(places[k] for k in alive),
            asked,
            tuple(each.join for each in wanted),
        )
        return program, columns, [references[k] for k in alive]


def _of_blocks(vectors):
    return any(isinstance(each, BlockVector) for each in vectors)


def _in_order_of_need(vectors):
    """These vectors and those they are computed from, every one after what it needs."""
    order: dict[int, BlockVector] = {}
    stack = [(vector, False) for vector in reversed(vectors) if isinstance(vector, BlockVector)]
    while stack:
        vector, ready = stack.pop()
        if id(vector) in order:
            continue
        if ready or vector.column is not None:
            order[id(vector)] = vector
            continue
        if vector.call is None:
            raise RuntimeError("The visit that was to compute this vector did not come to its end.")
        stack.append((vector, True))
        stack.extend(
            (each, False)
            for each in reversed(vector.call.arguments)
            if isinstance(each, BlockVector)
        )
    return list(order.values())


class BlockOperator(Operator):
    """A sum of operators, one per block; see the module docstring.

    Parameters
    ----------
    pieces : BlockVector
        The operator of each block, none without constraints.
    n_constraints : int
        Of all blocks together.
    n_features : int
    dtype : dtype
        Of its pieces.
    """

    xp = np

    def __init__(self, pieces: BlockVector, n_constraints: int, n_features: int, dtype: Any):
        self._pieces = pieces
        self.n_constraints, self.n_features = int(n_constraints), int(n_features)
        self.dtype = np.dtype(dtype)

    @property
    def space(self):
        return self._pieces.space

    @property
    def pieces(self):
        return self._pieces

    @property
    def reference(self):
        return np.empty(0, self.dtype)

    def forward(self, M):
        return self.space.map(_forward, self.pieces, M=M)

    def forward_factor(self, L):
        return self.space.map(_forward_factor, self.pieces, L=L)

    def adjoint(self, u):
        return self.adjoint_and(u)[0]

    def adjoint_and(self, u, *wanted):
        adjoint, *results = self.space.totals(total(_adjoint, self.pieces, u), *wanted)
        return adjoint.astype(self.dtype, copy=False), results

    @property
    def row_sizes(self):
        return self.space.map(_row_sizes, self.pieces)

    def subset(self, index):
        raise NotImplementedError("An operator of blocks is not taken apart by row numbers.")

    def astype(self, dtype):
        if self.dtype == dtype:
            return self
        wider = np.dtype(dtype).itemsize > self.dtype.itemsize  # computed whenever it is needed
        make = self.space.passing if wider else self.space.map
        pieces = make(_astype, self.pieces, dtype=dtype)
        return BlockOperator(pieces, self.n_constraints, self.n_features, dtype)

    def empty_constraint_vector(self):
        return self.space.map(_empty, self.pieces)

    def constraint_vector(self, values):
        if not isinstance(values, BlockVector):
            raise TypeError(
                f"got {type(values).__name__} for one number per constraint of an operator of "
                "blocks; give a vector of its space."
            )
        return values.astype(self.dtype)


# ---- what is mapped and summed over the blocks


def _astype(piece, dtype):
    if isinstance(piece, Operator):
        piece = piece.astype(dtype)
        piece.source = None  # not to be kept beside it
        return piece
    return like(piece, piece, dtype)


def _forward(piece, M):
    return piece.forward(like(M, piece.reference))


def _forward_factor(piece, L):
    return piece.forward_factor(like(L, piece.reference))


def _adjoint(piece, u):
    return piece.adjoint(u)


def _row_sizes(piece):
    return piece.row_sizes + zeros(piece.n_constraints, piece.reference)


def _empty(piece):
    return zeros(piece.n_constraints, piece.reference)


def _size(piece):
    return piece.n_constraints


def _placed(piece, values, name):
    """Values from a file, where the piece is."""
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
    """What the blocks returned, as it is."""

    def __add__(self, other):
        return Listed([*self, *other])


def _listed(*pieces, function, small):
    return Listed([function(*pieces, **small)])
