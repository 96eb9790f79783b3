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
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlparse

from distributed.utils import get_ip

from .blocks import GROUP, Engine, Program
from .checkpoint import read_piece, write_piece

EMBEDDED = 1 << 13  # bytes of a program that are sent with the task of every block


class Column(NamedTuple):
    """Futures of what a visit left with each block, and which part of it this is."""

    states: tuple
    part: int | None


class Cluster(Engine):
    """See the module docstring; ``client`` is a `distributed.Client`."""

    def __init__(self, client: Any):
        self.client = client

    def source(self, tasks):
        return Column(tuple(self.client.compute(list(tasks))), None)

    def visit(self, program: Program, inputs: Sequence[Column]):
        states, where = _distinct(inputs)
        sent = self._sent(program)
        visited = [
            self._submit(_visit, sent, where, *block, name="conemetric-visit")
            for block in zip(*states, strict=True)
        ]
        results = visited
        if program.kept:
            results = [self._submit(_results, state, name="conemetric-sum") for state in visited]
        groups = [
            self._submit(_join, program.joins, *results[k : k + GROUP], name="conemetric-join")
            for k in range(0, len(results), GROUP)
        ]
        columns = [Column(tuple(visited), k) for k in range(len(program.kept))]
        return columns, program.join(self.client.gather(groups))

    def across(self, function: Callable, own: Column, others: Column, small):
        chains = [None] * len(own.states)
        for number, other in enumerate(others.states):
            chains = [
                self._submit(
                    _across,
                    function,
                    chain,
                    mine,
                    own.part,
                    other,
                    others.part,
                    number,
                    small,
                    name="conemetric-across",
                )
                for chain, mine in zip(chains, own.states, strict=True)
            ]
        return Column(tuple(chains), None)

    def save(self, column, folder):
        saved = [
            self._submit(_save, state, column.part, f"{folder}/{block}", name="conemetric-save")
            for block, state in enumerate(column.states)
        ]
        self.client.gather(saved)
        return self.load(folder, len(saved))

    def load(self, folder, n_blocks):
        loaded = [
            self._submit(read_piece, f"{folder}/{block}", name="conemetric-load")
            for block in range(n_blocks)
        ]
        return Column(tuple(loaded), None)

    def select(self, column, blocks):
        return Column(tuple(column.states[block] for block in blocks), column.part)

    def n_blocks_of(self, column):
        return len(column.states)

    @cached_property
    def scratch(self):
        """A folder that all workers see, where that is sure: they are on this machine."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        here = {"127.0.0.1", "localhost", "::1", get_ip(), None}
        if not all(urlparse(address).hostname in here for address in workers):
            return None
        folder = tempfile.mkdtemp(prefix="conemetric-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return folder

    def _sent(self, program):
        """The program as tasks take it: itself where it is small, else a future of it."""
        if len(pickle.dumps(program)) <= EMBEDDED:
            return program
        return self._submit(_same, program, name="conemetric-program")

    def _submit(self, function, *args, name):
        return self.client.submit(function, *args, key=f"{name}-{uuid.uuid4().hex}", pure=False)


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


def _same(value):
    return value


def _part(state, part):
    return state if part is None else state[0][part]


def _visit(program, where, *states):
    pieces, results = program.run([_part(states[k], part) for k, part in where])
    return (pieces, results) if program.kept else results


def _results(state):
    return state[1]


def _join(joins, *results):
    return Program(0, (), (), (), joins).join(results)


def _across(function, chain, mine, my_part, other, other_part, number, small):
    return function(chain, _part(mine, my_part), _part(other, other_part), number, **small)


def _save(state, part, address):
    write_piece(_part(state, part), address)
