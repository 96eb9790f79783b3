"""Blocks on the workers of a dask.distributed cluster.

A visit is one task per block, from its old state to a new one; nothing changes in place. So the
scheduler can recompute whatever a dead worker held, starting from the data, with the same bits. Sums
are tasks of their own; otherwise joining them would move whole states. Neighbouring blocks start on
one worker and are joined there, so about one sum per worker travels. What all blocks need (a D x D
factor, coefficients) travels once to each worker.
"""

import pickle
import shutil
import tempfile
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import urlparse

from dask import annotate
from distributed.utils import get_ip

from ..core.vectors import same
from .checkpoint import read_array, write_array
from .visits import GROUP, Engine, Visit, join

EMBEDDED = 1 << 11  # bytes up to which a visit is sent with the task of every block


class Column(NamedTuple):
    """Futures of the state that a visit left with each block, the preferred worker of each
    block (None: any), and which part of the state this column is (None: all of it).
    """

    states: tuple[Any, ...]
    places: tuple[str | None, ...]
    part: int | None = None


class Cluster(Engine):
    """Visits blocks on the workers of a cluster, given its `distributed.Client`."""

    def __init__(self, client: Any):
        self.client = client

    def source(self, tasks: Sequence[Any]) -> Column:
        threads = self.client.nthreads()
        workers: list[str] = []
        for worker in sorted(threads):
            workers += [worker] * threads[worker]
        if not workers:  # none has started yet
            return Column(tuple(self.client.compute(list(tasks))), (None,) * len(tasks))
        # neighbouring blocks on one worker, as many on each
        places = tuple(workers[k * len(workers) // len(tasks)] for k in range(len(tasks)))
        futures: list[Any] = []
        for place, neighbours in groupby(zip(places, tasks, strict=True), itemgetter(0)):
            own = [task for _, task in neighbours]
            futures += self.client.compute(own, workers=[place], allow_other_workers=True)
        return Column(tuple(futures), places)

    def visit(self, visit: Visit, inputs: Sequence[Column]) -> tuple[list[Column], tuple[Any, ...]]:
        # the distinct states among the columns, and for each column the number and part of its own
        states = {id(column.states): column.states for column in inputs}
        numbers = list(states)
        where = tuple((numbers.index(id(column.states)), column.part) for column in inputs)
        graph = Graph("conemetric-visit")
        task = partial(_visit, where, visit)
        shared = []
        if len(pickle.dumps(visit)) > EMBEDDED:  # then it travels once to each worker
            task = partial(_visit, where)
            shared = [graph.add("visit", partial(same, visit))]
        places = _places(inputs)
        visited = []
        for number, block in enumerate(zip(*states.values(), strict=True)):
            key = graph.add(f"block-{number}", task, *shared, *block, place=places[number])
            visited.append(key)
        if not visit.kept:
            (result,) = self._get(graph, [_joined(graph, visit.joins, visited)])
            return [], self.client.gather(result)
        results = []
        for number, key in enumerate(visited):
            of_block = graph.add(f"sum-{number}", itemgetter(1), key, place=places[number])
            results.append(of_block)
        *left, result = self._get(graph, [*visited, _joined(graph, visit.joins, results)])
        columns = [Column(tuple(left), places, part) for part in range(len(visit.kept))]
        return columns, self.client.gather(result)

    def across(
        self, function: Callable[..., Any], own: Column, others: Column, small: dict[str, Any]
    ) -> Column:
        graph = Graph("conemetric-across")
        last = []
        # a chain for each block, in the order of the others: the bits do not
        # depend on which comes first
        for block, mine in enumerate(own.states):
            before = None
            for number, other in enumerate(others.states):
                both = CrossVisit(function, own.part, others.part, number, small)
                name = f"{block}-{number}"
                before = graph.add(name, both, before, mine, other, place=own.places[block])
            last.append(before)
        return Column(tuple(self._get(graph, last)), own.places)

    def save(self, column: Column, folder: str) -> Column:
        graph = Graph("conemetric-save")
        saved = []
        for block, state in enumerate(column.states):
            write = partial(_save, column.part, f"{folder}/{block}")
            saved.append(graph.add(f"{block}", write, state))
        self.client.gather(self._get(graph, saved))
        return self.load(folder, len(saved))._replace(places=column.places)

    def load(self, folder: str, n_blocks: int) -> Column:
        graph = Graph("conemetric-load")
        loaded = []
        for block in range(n_blocks):
            read = partial(read_array, f"{folder}/{block}")
            loaded.append(graph.add(f"{block}", read))
        return Column(tuple(self._get(graph, loaded)), (None,) * n_blocks)

    def select(self, column: Column, blocks: Sequence[int]) -> Column:
        states = tuple(column.states[block] for block in blocks)
        return Column(states, tuple(column.places[block] for block in blocks), column.part)

    def _get(self, graph: "Graph", keys: list[Any]) -> list[Any]:
        """Return futures of these keys, each computed on its worker, or anywhere if that has died."""
        places: defaultdict[str, list[str]] = defaultdict(list)
        for key, place in graph.places.items():
            places[key].append(place)
        with annotate(workers=places.__getitem__, allow_other_workers=True):
            return self.client.get(graph.tasks, keys, sync=False)

    @cached_property
    def scratch(self) -> str | None:
        """A folder that all workers see, if they all run on this machine; else None."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        here = {"127.0.0.1", "localhost", "::1", get_ip()}
        hosts = {urlparse(address).hostname for address in workers}
        if not hosts <= here:
            return None
        folder = tempfile.mkdtemp(prefix="conemetric-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


class Graph:
    """Tasks under keys that no other graph has, and their preferred workers."""

    def __init__(self, name: str):
        self._name = name
        self._token = uuid.uuid4().hex[:16]
        self.tasks: dict[str, tuple[Any, ...]] = {}
        self.places: dict[str, str] = {}

    def add(
        self, part: str, function: Callable[..., Any], *arguments: Any, place: str | None = None
    ) -> str:
        """Add a task and return its key; arguments are keys, futures or None."""
        key = f"{self._name}-{part}-{self._token}"
        self.tasks[key] = (function, *arguments)
        if place is not None:
            self.places[key] = place
        return key


def _places(inputs: Sequence[Column]) -> tuple[str | None, ...]:
    """Return the preferred workers of the blocks, by the first column that has any."""
    for column in inputs:
        if any(column.places):
            return column.places
    return inputs[0].places


def _joined(graph: Graph, joins: Sequence[Callable[..., Any]], results: list[str]) -> str:
    """Return the key of the results joined as by `Visit.join_in_groups`, where a group's first block is."""
    results = _joined_once(graph, joins, results, GROUP)
    while len(results) > 1:
        results = _joined_once(graph, joins, results, 2)
    return results[0]


def _joined_once(
    graph: Graph, joins: Sequence[Callable[..., Any]], results: list[str], size: int
) -> list[str]:
    """Return the keys of the results joined ``size`` at a time."""
    task = partial(join, joins)
    groups = [results[k : k + size] for k in range(0, len(results), size)]
    joined = []
    for number, group in enumerate(groups):
        place = graph.places.get(group[0])
        joined.append(graph.add(f"join-{len(groups)}-{number}", task, *group, place=place))
    return joined


# ---- tasks


@dataclass(frozen=True)
class CrossVisit:
    """A task that adds what a block makes of another one, with this number, to what it made before."""

    function: Callable[..., Any]
    own_part: int | None
    other_part: int | None
    number: int
    small: dict[str, Any]

    def __call__(self, before: Any, own: Any, other: Any) -> Any:
        mine = _part(own, self.own_part)
        theirs = _part(other, self.other_part)
        return self.function(before, mine, theirs, self.number, **self.small)


def _part(state: Any, part: int | None) -> Any:
    """Return a part of the pieces that a visit left with a block, or the one piece that it is."""
    if part is None:
        return state
    return state[0][part]


def _visit(where: tuple[tuple[int, int | None], ...], visit: Visit, *states: Any) -> Any:
    pieces, results = visit.run([_part(states[number], part) for number, part in where])
    if not visit.kept:
        return results
    return pieces, results


def _save(part: int | None, address: str, state: Any) -> None:
    write_array(_part(state, part), address)
