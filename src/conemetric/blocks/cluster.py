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
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import urlparse

from dask import annotate
from distributed.utils import get_ip

from ..core.vectors import same
from .checkpoint import read_array, write_array
from .program import GROUP, Engine, Program, join

EMBEDDED = 1 << 11  # bytes up to which a program is sent with the task of every block


class Column(NamedTuple):
    """Futures of the state that a visit left with each block, the preferred worker of each
    block (None: any), and which part of the state this column is (None: all of it).
    """

    states: tuple
    places: tuple
    part: int | None = None


class Cluster(Engine):
    """Visits blocks on the workers of a cluster, given its `distributed.Client`."""

    def __init__(self, client: Any):
        self.client = client

    def source(self, tasks: Sequence[Any]) -> Column:
        threads = self.client.nthreads()
        workers = [worker for worker in sorted(threads) for _ in range(threads[worker])]
        if not workers:  # none has started yet
            return Column(tuple(self.client.compute(list(tasks))), (None,) * len(tasks))
        places = tuple(workers[k * len(workers) // len(tasks)] for k in range(len(tasks)))
        made: list = []
        for place, neighbours in groupby(zip(places, tasks, strict=True), itemgetter(0)):
            own = [task for _, task in neighbours]
            made += self.client.compute(own, workers=[place], allow_other_workers=True)
        return Column(tuple(made), places)

    def visit(self, program: Program, inputs: Sequence[Column]) -> tuple[list, tuple]:
        # the distinct states among the columns, and for each column its (state, part)
        states = {id(column.states): column.states for column in inputs}
        number = list(states).index
        where = tuple((number(id(each.states)), each.part) for each in inputs)
        graph = Graph("conemetric-visit")
        large = len(pickle.dumps(program)) > EMBEDDED
        sent = graph.add("program", partial(same, program)) if large else None
        visit = partial(_visit, where) if sent else partial(_visit, where, program)
        places = next((each.places for each in inputs if any(each.places)), inputs[0].places)
        visited = [
            graph.add(f"block-{k}", visit, *([sent] if sent else []), *block, place=place)
            for k, (*block, place) in enumerate(zip(*states.values(), places, strict=True))
        ]
        results = visited
        if program.kept:
            results = [
                graph.add(f"sum-{k}", itemgetter(1), key, place=place)
                for k, (key, place) in enumerate(zip(visited, places, strict=True))
            ]
        kept = visited if program.kept else []
        *left, result = self._get(graph, [*kept, _joined(graph, program.joins, results)])
        columns = [Column(tuple(left), places, part) for part in range(len(program.kept))]
        return columns, self.client.gather(result)

    def across(
        self, function: Callable, own: Column, others: Column, small: dict[str, Any]
    ) -> Column:
        graph = Graph("conemetric-across")
        last = []
        for block, mine in enumerate(own.states):
            chain = None
            for number, other in enumerate(others.states):
                step = partial(_across, function, own.part, others.part, number, small)
                name, place = f"{block}-{number}", own.places[block]
                chain = graph.add(name, step, chain, mine, other, place=place)
            last.append(chain)
        return Column(tuple(self._get(graph, last)), own.places)

    def save(self, column: Column, folder: str) -> Column:
        graph = Graph("conemetric-save")
        saved = [
            graph.add(f"{block}", partial(_save, column.part, f"{folder}/{block}"), state)
            for block, state in enumerate(column.states)
        ]
        self.client.gather(self._get(graph, saved))
        return self.load(folder, len(saved))._replace(places=column.places)

    def load(self, folder: str, n_blocks: int) -> Column:
        graph = Graph("conemetric-load")
        read = [partial(read_array, f"{folder}/{block}") for block in range(n_blocks)]
        loaded = [graph.add(f"{block}", task) for block, task in enumerate(read)]
        return Column(tuple(self._get(graph, loaded)), (None,) * n_blocks)

    def select(self, column: Column, blocks: Sequence[int]) -> Column:
        states = tuple(column.states[block] for block in blocks)
        return Column(states, tuple(column.places[block] for block in blocks), column.part)

    def _get(self, graph, keys):
        """Futures of these keys, each computed on its worker, or anywhere if that has died."""
        places = defaultdict(list, {key: [place] for key, place in graph.places.items()})
        with annotate(workers=places.__getitem__, allow_other_workers=True):
            return self.client.get(graph.tasks, keys, sync=False)

    @cached_property
    def scratch(self) -> str | None:
        """A folder that all workers see, if they all run on this machine; else None."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        here = {"127.0.0.1", "localhost", "::1", get_ip()}
        if not all(urlparse(address).hostname in here for address in workers):
            return None
        folder = tempfile.mkdtemp(prefix="conemetric-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


class Graph:
    """Tasks under keys that no other graph has, and their preferred workers."""

    def __init__(self, name: str):
        self._name, self._token = name, uuid.uuid4().hex[:16]
        self.tasks: dict[str, tuple] = {}
        self.places: dict[str, str] = {}

    def add(self, part: str, function: Callable, *arguments: Any, place: str | None = None) -> str:
        """Add a task and return its key; arguments are keys, futures or None."""
        key = f"{self._name}-{part}-{self._token}"
        self.tasks[key] = (function, *arguments)
        if place is not None:
            self.places[key] = place
        return key


def _joined(graph, joins, results):
    """The key of the results joined as by `Program.join_in_groups`, where a group's first block is."""
    task, size = partial(join, joins), GROUP
    while size == GROUP or len(results) > 1:
        groups = [results[k : k + size] for k in range(0, len(results), size)]
        results = [
            graph.add(f"join-{len(groups)}-{k}", task, *group, place=graph.places.get(group[0]))
            for k, group in enumerate(groups)
        ]
        size = 2
    return results[0]


# ---- tasks


def _part(state, part):
    return state if part is None else state[0][part]


def _visit(where, program, *states):
    pieces, results = program.run([_part(states[k], part) for k, part in where])
    return (pieces, results) if program.kept else results


def _across(function, my_part, other_part, number, small, chain, mine, other):
    return function(chain, _part(mine, my_part), _part(other, other_part), number, **small)


def _save(part, address, state):
    write_array(_part(state, part), address)
