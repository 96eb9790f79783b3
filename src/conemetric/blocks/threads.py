"""Blocks in this process: a few at a time, out of core where memory is short.

Every visit goes through the blocks in their order, ``workers`` of them at once, each by
one thread. Pieces stay in memory as long as there is room; what comes later goes to files
in a temporary folder and is read again when it is needed. (Blocks are visited in a cycle:
any other rule would evict what is needed next.)
"""

import os
import pickle
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from ..core.compiled import alone, n_threads
from ..operators.base import DifferenceOperator
from .checkpoint import read_array, write_array
from .operator import Engine, Program

SHARE = 0.5  # of the memory there is, for pieces; the rest is for the blocks being visited


class InProcess(Engine):
    """See the module docstring.

    Parameters
    ----------
    workers : int, default=None
        Blocks visited at a time; None takes as many as there are cores.
    memory_limit : int, default=None
        Bytes of pieces kept in memory; None takes half of what this process may use.
    folder : path, default=None
        Where pieces go that have no room, inside a folder of their own that is removed in
        the end; None takes the system's place for temporary files.
    devices : sequence of str, default=None
        PyTorch devices that blocks are dealt to in turn, as in ``["cuda:0", "cuda:1"]``;
        None computes in NumPy.
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
        self._libraries = ThreadpoolController()
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="conemetric-block")

    def source(self, tasks):
        return [Source(task) for task in tasks]

    def place(self, block):
        """The device of a block, or None for NumPy."""
        return None if self.devices is None else self.devices[block % len(self.devices)]

    def visit(self, program: Program, inputs: Sequence[Any]):
        n_blocks = len(inputs[0])
        columns: list[list] = [[None] * n_blocks for _ in program.kept]

        def visit_block(block):
            known: dict[int, Any] = {}
            pieces, results = program.run([column[block].get(known) for column in inputs])
            for column, piece in zip(columns, pieces, strict=True):
                column[block] = self._store.put(piece, known)
            return results

        return columns, program.join_in_groups(self._for_all(visit_block, n_blocks))

    def across(self, function: Callable, own, others, small):
        column = [None] * len(own)

        def visit_block(block):
            mine, result = own[block].get({}), None
            for number, other in enumerate(others):
                result = function(result, mine, other.get({}), number, **small)
            column[block] = self._store.put(result, {})

        for _ in self._for_all(visit_block, len(own)):
            pass
        return column

    def _for_all(self, function, n_blocks):
        """What ``function`` returns for each block, in their order."""
        blocks, waiting = iter(range(n_blocks)), []

        def begin(count):
            jobs = [self._pool.submit(alone, function, block) for block in islice(blocks, count)]
            waiting.extend(jobs)

        with self._libraries.limit(limits=1):
            try:
                begin(2 * self.workers)  # few results wait at a time, however many blocks there are
                while waiting:
                    yield waiting.pop(0).result()
                    begin(1)
            finally:
                wait([job for job in waiting if not job.cancel()])

    def save(self, column, folder):
        for block, stored in enumerate(column):
            write_array(stored.get({}), f"{folder}/{block}")
        return column

    def load(self, folder, n_blocks):
        return [File(f"{folder}/{block}") for block in range(n_blocks)]

    def select(self, column, blocks):
        return [column[block] for block in blocks]

    def n_blocks_of(self, column):
        return len(column)


class Source:
    """A piece that is computed whenever it is needed, by a dask task."""

    def __init__(self, task):
        self._task = task

    def get(self, known):
        return self._task.compute(scheduler="synchronous")


class Stored:
    """A piece in memory, or in a file that goes when nobody holds this any more."""

    def __init__(self, piece=None, path=None):
        self._piece, self._path = piece, path

    def get(self, known):
        if self._path is None:
            piece = self._piece
        else:
            with open(self._path, "rb") as file:
                piece = load(file)
        if size_of(piece):
            known[id(piece)] = weakref.ref(piece), self
        return piece


class StoredTuple:
    """Several stored pieces that are handed out together."""

    def __init__(self, parts):
        self._parts = parts

    def get(self, known):
        return tuple(part.get(known) for part in self._parts)


class File:
    """A piece in a file of a checkpoint, which stays."""

    def __init__(self, address):
        self._address = address

    def get(self, known):
        return read_array(self._address)


class Store:
    """Pieces in memory up to a limit, in files beyond."""

    def __init__(self, limit, folder):
        self.limit = usable_memory() * SHARE if limit is None else limit
        self._parent, self._folder = folder, None
        self._lock, self._used, self._count = threading.Lock(), 0, 0

    def put(self, piece, known):
        """``known`` says which pieces that were read are stored already."""
        if isinstance(piece, tuple):
            return StoredTuple([self.put(part, known) for part in piece])
        reference, stored = known.get(id(piece), (None, None))
        if reference is not None and reference() is piece:
            return stored
        size = size_of(piece)
        with self._lock:
            room = self._used + size <= self.limit
            if room:
                self._used += size
            else:
                self._count += 1
            number = self._count
        if room:
            stored = Stored(piece)
            weakref.finalize(stored, self._release, size)
            return stored
        path = os.path.join(self._own_folder(), str(number))
        with open(path, "wb") as file:
            dump(piece, file)
        stored = Stored(path=path)
        weakref.finalize(stored, _remove, path)
        return stored

    def _release(self, size):
        with self._lock:
            self._used -= size

    def _own_folder(self):
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.mkdtemp(prefix="conemetric-", dir=self._parent)
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            return self._folder


def dump(piece, file):
    """Write a piece, for this process alone: its pickle, then the bytes of its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(piece, protocol=5, buffer_callback=buffers.append)
    sizes = [buffer.raw().nbytes for buffer in buffers]
    pickle.dump((head, sizes), file)
    for buffer in buffers:
        file.write(buffer.raw())


def load(file):
    """Read what `dump` wrote."""
    head, sizes = pickle.load(file)
    buffers: list = []
    for size in sizes:
        buffer = np.empty(size, np.uint8)
        view, done = buffer.data, 0
        while done < size:
            read = file.readinto(view[done:])
            if not read:
                raise EOFError(f"{file} ends in the middle of an array.")
            done += read
        buffers.append(buffer)
    return pickle.loads(head, buffers=buffers)


def _remove(path):
    if os.path.exists(path):
        os.remove(path)


def size_of(piece) -> int:
    """Bytes of an array or of an operator's arrays."""
    return piece.nbytes if isinstance(piece, np.ndarray | DifferenceOperator) else 0


def usable_memory() -> int:
    """Bytes this process may use beside those it has: of what is free, and of the limits
    that were set for it.
    """
    found, (mapped, resident, data) = [], own_memory()
    if os.path.exists("/proc/meminfo"):
        with open("/proc/meminfo") as file:
            found += [1024 * int(line.split()[1]) for line in file if "MemAvailable" in line]
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if os.path.exists(path):
            text = Path(path).read_text().strip()
            found += [int(text) - resident] if text.isdecimal() else []
    try:
        import resource
    except ImportError:  # Windows
        pass
    else:
        # what counts is what was asked for, used or not: some allocators ask for much
        for kind, used in ((resource.RLIMIT_AS, mapped), (resource.RLIMIT_DATA, data)):
            limit = resource.getrlimit(kind)[0]
            # not every system that has a limit says how much of it was asked for
            found += [limit - max(used, resident)] if limit != resource.RLIM_INFINITY else []
    return max(0, min(found, default=1 << 30))


def own_memory() -> tuple[int, int, int]:
    """Bytes of this process: mapped, in memory, and asked for as data, where the system
    says so; else zeros.
    """
    if not os.path.exists("/proc/self/statm"):
        return 0, 0, 0
    with open("/proc/self/statm") as file:
        mapped, resident, _, _, _, data, *_ = (
            int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in file.read().split()
        )
    return mapped, resident, data
