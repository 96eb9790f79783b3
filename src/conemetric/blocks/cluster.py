"""Blocks on the workers of a dask.distributed cluster.

A step is a task from the old state of a block to the new one; nothing is changed in
place. So the scheduler can compute again what a dead worker held, from the data on, with
the same bits: no data are scattered, no actor holds a state. Sums are tasks of their own,
or joining them would pull whole states along. Neighbouring blocks begin on one worker, and
are joined there: about one sum for each worker travels. What all blocks need (a D x D
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

from .checkpoint import read_array, write_array
from .operator import GROUP, Engine, Program

EMBEDDED = 1 << 11  # bytes of a program that are sent with the task of every block


class Column(NamedTuple):
    """Futures of what a visit left with each block, the workers that the blocks belong to
    (None: to any), and which part of what was left this is.
    """

    states: tuple
    places: tuple
    part: int | None = None


class Cluster(Engine):
    """See the module docstring; ``client`` is a `distributed.Client`."""

    def __init__(self, client: Any):
        self.client = client

    def source(self, tasks):
        threads = self.client.nthreads()
        workers = [worker for worker in sorted(threads) for _ in range(threads[worker])]
        if not workers:  # none has come yet
            return Column(tuple(self.client.compute(list(tasks))), (None,) * len(tasks))
        places = tuple(workers[k * len(workers) // len(tasks)] for k in range(len(tasks)))
        made: list = []
        for place, neighbours in groupby(zip(places, tasks, strict=True), itemgetter(0)):
            own = [task for _, task in neighbours]
            made += self.client.compute(own, workers=[place], allow_other_workers=True)
        return Column(tuple(made), places)

    def visit(self, program: Program, inputs: Sequence[Column]):
        states, where = _distinct(inputs)
        graph = Graph("conemetric-visit")
        sent = graph.add("program", partial(_constant, program)) if _large(program) else None
        visit = partial(_visit, where) if sent else partial(_visit, where, program)
        places = next((each.places for each in inputs if any(each.places)), inputs[0].places)
        visited = [
            graph.add(f"block-{k}", visit, *([sent] if sent else []), *block, place=place)
            for k, (*block, place) in enumerate(zip(*states, places, strict=True))
        ]
        results = visited
        if program.kept:
            results = [
                graph.add(f"sum-{k}", _results, key, place=place)
                for k, (key, place) in enumerate(zip(visited, places, strict=True))
            ]
        kept = visited if program.kept else []
        *states, result = self._get(graph, [*kept, _joined(graph, program.joins, results)])
        columns = [Column(tuple(states), places, part) for part in range(len(program.kept))]
        return columns, self.client.gather(result)

    def across(self, function: Callable, own: Column, others: Column, small):
        graph = Graph("conemetric-across")
        last = []
        for block, mine in enumerate(own.states):
            chain = None
            for number, other in enumerate(others.states):
                step = partial(_across, function, own.part, others.part, number, small)
                chain = graph.add(
                    f"{block}-{number}", step, chain, mine, other, place=own.places[block]
                )
            last.append(chain)
        return Column(tuple(self._get(graph, last)), own.places)

    def save(self, column, folder):
        graph = Graph("conemetric-save")
        saved = [
            graph.add(f"{block}", partial(_save, column.part, f"{folder}/{block}"), state)
            for block, state in enumerate(column.states)
        ]
        self.client.gather(self._get(graph, saved))
        return self.load(folder, len(saved))._replace(places=column.places)

    def load(self, folder, n_blocks):
        graph = Graph("conemetric-load")
        loaded = [
            graph.add(f"{block}", partial(read_array, f"{folder}/{block}"))
            for block in range(n_blocks)
        ]
        return Column(tuple(self._get(graph, loaded)), (None,) * n_blocks)

    def select(self, column, blocks):
        states = tuple(column.states[block] for block in blocks)
        return Column(states, tuple(column.places[block] for block in blocks), column.part)

    def n_blocks_of(self, column):
        return len(column.states)

    def _get(self, graph, keys):
        """Futures of these keys, each computed in its place; where that has died, anywhere."""
        places = defaultdict(list, graph.places)
        with annotate(workers=places.__getitem__, allow_other_workers=True):
            return self.client.get(graph.tasks, keys, sync=False)

    @cached_property
    def scratch(self):
        """A folder that all workers see, where that is sure: they are on this machine."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        here = {"127.0.0.1", "localhost", "::1", get_ip()}
        if not all(urlparse(address).hostname in here for address in workers):
            return None
        folder = tempfile.mkdtemp(prefix="conemetric-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder


class Graph:
    """Tasks by keys that no other graph has, and the workers that some belong to."""

    def __init__(self, name):
        self._name, self._token = name, uuid.uuid4().hex[:16]
        self.tasks: dict[str, tuple] = {}
        self.places: dict[str, list[str]] = {}

    def add(self, part, function, *arguments, place=None):
        """The key of a new task; arguments are keys, futures or None."""
        key = f"{self._name}-{part}-{self._token}"
        self.tasks[key] = (function, *arguments)
        if place is not None:
            self.places[key] = [place]
        return key

    def place_of(self, key):
        return self.places.get(key, [None])[0]


def _joined(graph, joins, results):
    """The key of the results joined as `Program.join_in_groups` does, each group where its
    first block belongs.
    """
    join, size = partial(_join, joins), GROUP
    while size == GROUP or len(results) > 1:
        groups = [results[k : k + size] for k in range(0, len(results), size)]
        results = [
            graph.add(f"join-{len(groups)}-{k}", join, *group, place=graph.place_of(group[0]))
            for k, group in enumerate(groups)
        ]
        size = 2
    return results[0]


def _large(program):
    return len(pickle.dumps(program)) > EMBEDDED


def _distinct(inputs):
    """The different states among the columns, and for each column (state, part)."""
    states: list[tuple] = []
    where = []
    for column in inputs:
        found = next((k for k, state in enumerate(states) if state is column.states), None)
        if found is None:
            found = len(states)
            states.append(column.states)
        where.append((found, column.part))
    return states, tuple(where)


# ---- tasks


def _constant(value):
    return value


def _part(state, part):
    return state if part is None else state[0][part]


def _visit(where, program, *states):
    pieces, results = program.run([_part(states[k], part) for k, part in where])
    return (pieces, results) if program.kept else results


def _results(state):
    return state[1]


def _join(joins, *results):
    return Program(0, (), (), (), joins).join(results)


def _across(function, my_part, other_part, number, small, chain, mine, other):
    return function(chain, _part(mine, my_part), _part(other, other_part), number, **small)


def _save(part, address, state):
    write_array(_part(state, part), address)
