"""Blocks in the threads of this process, out of core when memory is short.

Every visit goes through the blocks in their order, ``workers`` of them at a time, one thread each.
Pieces stay in memory while there is room; later ones go to files in a temporary folder and are read
back when needed. (Evicting older pieces instead would evict the ones needed next.)
"""

import os
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core.blas import blas_threads
from ..core.extras import require
from ..core.threads import n_threads, single_threaded
from ..engine.operators.base import DifferenceOperator
from .checkpoint import read_array, write_array
from .visits import Engine, Visit

SHARE = 0.5  # of the usable memory for pieces; the rest is for the blocks being visited

Blocks = list[Any]  # a column: what holds the piece of each block, with a method ``get``
# Pieces of a visit that are stored already, and what holds them, by the id of the piece.
Known = dict[int, Any]


class Threads(Engine):
    """Visits blocks in threads of this process; see the module docstring.

    Parameters
    ----------
    workers : int, default=None
        Blocks visited at a time; None means one per core.
    memory_limit : int, default=None
        Bytes of pieces kept in memory; None means half of what this process may use.
    folder : path, default=None
        Where pieces that do not fit are written, in a subfolder that is removed at the end;
        None means the system's temporary folder.
    devices : sequence of str, default=None
        PyTorch devices among which blocks are distributed in turn, as in
        ``["cuda:0", "cuda:1"]``; None computes in NumPy.
    """

    def __init__(
        self,
        workers: int | None = None,
        memory_limit: int | None = None,
        folder: str | Path | None = None,
        devices: Sequence[str] | None = None,
    ):
        self.workers = workers or n_threads()
        self.devices = devices
        self._store = Store(memory_limit, folder)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="conemetric-block")

    def source(self, tasks: Sequence[Any]) -> Blocks:
        return [Made(partial(task.compute, scheduler="synchronous")) for task in tasks]

    def visit(self, visit: Visit, inputs: Sequence[Blocks]) -> tuple[list[Blocks], tuple[Any, ...]]:
        n_blocks = len(inputs[0])
        columns: list[Blocks] = [[None] * n_blocks for _ in visit.kept]

        def visit_block(block: int) -> tuple[Any, ...]:
            known: Known = {}
            pieces, results = visit.run([column[block].get(known) for column in inputs])
            for column, piece in zip(columns, pieces, strict=True):
                column[block] = self._store.put(piece, known)
            return results

        return columns, visit.join_in_groups(self._for_all(visit_block, n_blocks))

    def across(
        self, function: Callable[..., Any], own: Blocks, others: Blocks, small: dict[str, Any]
    ) -> Blocks:
        def visit_block(block: int) -> Any:
            mine = own[block].get({})
            result = None
            for number, other in enumerate(others):
                result = function(result, mine, other.get({}), number, **small)
            return self._store.put(result, {})

        return list(self._for_all(visit_block, len(own)))

    def _for_all(self, function: Callable[[int], Any], n_blocks: int) -> Iterator[Any]:
        """Yield what ``function`` returns for each block, in their order."""
        blocks = iter(range(n_blocks))
        on_one_core = single_threaded()(function)
        waiting: list[Future[Any]] = []

        def begin(count: int) -> None:
            for block in islice(blocks, count):
                waiting.append(self._pool.submit(on_one_core, block))

        with blas_threads(1):
            try:
                begin(2 * self.workers)  # so that few results wait to be joined
                while waiting:
                    yield waiting.pop(0).result()
                    begin(1)
            finally:
                # after an error or Ctrl-C no block may go on in the background
                running = [job for job in waiting if not job.cancel()]
                wait(running)

    def save(self, column: Blocks, folder: str) -> Blocks:
        for block, stored in enumerate(column):
            write_array(stored.get({}), f"{folder}/{block}")
        return column

    def load(self, folder: str, n_blocks: int) -> Blocks:
        return [Made(partial(read_array, f"{folder}/{block}")) for block in range(n_blocks)]

    def select(self, column: Blocks, blocks: Sequence[int]) -> Blocks:
        return [column[block] for block in blocks]


@dataclass(frozen=True)
class Made:
    """A piece that ``make`` computes, or reads, whenever it is needed."""

    make: Callable[[], Any]

    def get(self, known: Known) -> Any:
        return self.make()


class Stored:
    """A piece in memory, or in a file that is removed together with this object."""

    def __init__(self, piece: Any = None, path: str | None = None):
        self._piece = piece
        self._path = path

    def get(self, known: Known) -> Any:
        if self._path is None:
            piece = self._piece
        else:
            with open(self._path, "rb") as file:
                piece = pickle.load(file)
        if size_of(piece):
            # an id may be given to another object later; the reference tells
            # whether it still is this piece
            known[id(piece)] = (weakref.ref(piece), self)
        return piece


class StoredTuple:
    """A piece that is a tuple, its parts stored one by one."""

    def __init__(self, kind: type, parts: list[Any]):
        self._make = getattr(kind, "_make", kind)  # of named tuples
        self._parts = parts

    def get(self, known: Known) -> Any:
        return self._make(part.get(known) for part in self._parts)


class Store:
    """Pieces in memory up to a limit in bytes, in files beyond."""

    def __init__(self, limit: int | None, folder: str | Path | None):
        if limit is None:
            limit = int(usable_memory() * SHARE)
        self.limit = limit
        self._parent = folder
        self._lock = threading.Lock()
        self._used = 0

    def put(self, piece: Any, known: Known) -> Stored | StoredTuple:
        """Store a piece, unless it is one of those ``known`` to be stored already."""
        if isinstance(piece, tuple):
            return StoredTuple(type(piece), [self.put(part, known) for part in piece])
        reference, stored = known.get(id(piece), (None, None))
        if reference is not None and reference() is piece:
            return stored
        size = size_of(piece)
        with self._lock:
            has_room = self._used + size <= self.limit
            if has_room:
                self._used += size
        if has_room:
            stored = Stored(piece)
            weakref.finalize(stored, self._release, size)
            return stored
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
            pickle.dump(piece, file, protocol=5)  # the bytes of arrays are not copied
        stored = Stored(path=file.name)
        weakref.finalize(stored, Path(file.name).unlink, missing_ok=True)
        return stored

    def _release(self, size: int) -> None:
        with self._lock:
            self._used -= size

    @cached_property
    def _folder(self) -> str:
        folder = tempfile.mkdtemp(prefix="conemetric-", dir=self._parent)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


def size_of(piece: Any) -> int:
    """Bytes of an array or of an operator's arrays."""
    if isinstance(piece, np.ndarray | DifferenceOperator):
        return piece.nbytes
    return 0


def usable_memory() -> int:
    """Bytes that this process may still allocate, by what is free and by its own limits."""
    psutil = require("psutil", "cluster")  # which distributed needs too
    process = psutil.Process()
    own = process.memory_info()
    # a container may have less than the machine, and ``ulimit`` less than the container
    limits = [psutil.virtual_memory().available]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path):
            text = Path(path).read_text().strip()
            if text.isdecimal():  # "max" is no limit
                limits.append(int(text) - own.rss)
    if hasattr(psutil, "RLIMIT_AS"):  # Linux
        # these limits count what was allocated, used or not, and some allocators reserve a lot
        for kind, used in ((psutil.RLIMIT_AS, own.vms), (psutil.RLIMIT_DATA, own.data)):
            limit = process.rlimit(kind)[0]
            if limit != psutil.RLIM_INFINITY:
                limits.append(limit - used)
    return max(0, min(limits))
