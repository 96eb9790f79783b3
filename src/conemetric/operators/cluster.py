"""Blocks on the workers of a dask.distributed cluster.

A step is a task from the old state of a block to the new one; nothing is changed in
place. So the scheduler can compute again what a dead worker held, from the data on, with
the same bits: no data are scattered, no actor holds a state. Sums are tasks of their own,
or joining them would pull whole states along, and neighbouring blocks are joined where
they are. What all blocks need (a D x D factor, coefficients) travels once to each worker.
"""

import pickle
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple
from urllib.parse import urlparse

from distributed.utils import get_ip

from .blocks import GROUP, Engine, Program
from .checkpoint import read_piece, write_piece

EMBEDDED = 1 << 11  # bytes of a program that are sent with the task of every block


class Column(NamedTuple):
    """Futures of what a visit left with each block, and which part of it this is."""

    states: tuple
    part: int | None = None


class Cluster(Engine):
    """See the module docstring; ``client`` is a `distributed.Client`."""

    def __init__(self, client: Any):
        self.client = client

    def source(self, tasks):
        return Column(tuple(self.client.compute(list(tasks))))

    def visit(self, program: Program, inputs: Sequence[Column]):
        states, where = _distinct(inputs)
        graph = Graph("conemetric-visit")
        sent = graph.add("program", partial(_constant, program)) if _large(program) else None
        visit = partial(_visit, where) if sent else partial(_visit, where, program)
        visited = [
            graph.add(f"block-{k}", visit, *([sent] if sent else []), *block)
            for k, block in enumerate(zip(*states, strict=True))
        ]
        results = visited
        if program.kept:
            results = [graph.add(f"sum-{k}", _results, key) for k, key in enumerate(visited)]
        join = partial(_join, program.joins)
        groups = [
            graph.add(f"join-{k}", join, *results[k : k + GROUP])
            for k in range(0, len(results), GROUP)
        ]
        kept = visited if program.kept else []
        futures = self.client.get(graph.tasks, [*kept, *groups], sync=False)
        columns = [Column(tuple(futures[: len(kept)]), k) for k in range(len(program.kept))]
        return columns, program.join(self.client.gather(futures[len(kept) :]))

    def across(self, function: Callable, own: Column, others: Column, small):
        graph = Graph("conemetric-across")
        last = []
        for block, mine in enumerate(own.states):
            chain = None
            for number, other in enumerate(others.states):
                step = partial(_across, function, own.part, others.part, number, small)
                chain = graph.add(f"{block}-{number}", step, chain, mine, other)
            last.append(chain)
        return self._column(graph, last)

    def save(self, column, folder):
        graph = Graph("conemetric-save")
        saved = [
            graph.add(f"{block}", partial(_save, column.part, f"{folder}/{block}"), state)
            for block, state in enumerate(column.states)
        ]
        self.client.gather(self.client.get(graph.tasks, saved, sync=False))
        return self.load(folder, len(saved))

    def load(self, folder, n_blocks):
        graph = Graph("conemetric-load")
        loaded = [
            graph.add(f"{block}", partial(read_piece, f"{folder}/{block}"))
            for block in range(n_blocks)
        ]
        return self._column(graph, loaded)

    def select(self, column, blocks):
        return Column(tuple(column.states[block] for block in blocks), column.part)

    def n_blocks_of(self, column):
        return len(column.states)

    def _column(self, graph, keys):
        return Column(tuple(self.client.get(graph.tasks, keys, sync=False)))

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
    """Tasks by keys that no other graph has."""

    def __init__(self, name):
        self._name, self._token = name, uuid.uuid4().hex
        self.tasks: dict[str, tuple] = {}

    def add(self, part, function, *arguments):
        """The key of a new task; arguments are keys, futures or None."""
        key = f"{self._name}-{part}-{self._token}"
        self.tasks[key] = (function, *arguments)
        return key


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
    write_piece(_part(state, part), address)
