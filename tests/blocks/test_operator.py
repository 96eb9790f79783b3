"""Operators and vectors in blocks: the same numbers as in one memory, kept no longer than needed."""

import gc
import importlib.util
import operator

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conemetric import FrobMetric
from conemetric.blocks import Threads
from conemetric.blocks.operator import BlockOperator
from conemetric.blocks.threads import Store, usable_memory
from conemetric.blocks.vectors import BlockSpace
from conemetric.core.vectors import ARRAYS, greatest, total
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets

pytest.importorskip("dask")

SIZES = (40, 1, 7, 90, 3, 12, 5, 5, 5, 30)


class Ready:
    """A task whose result is known."""

    def __init__(self, value):
        self.value = value

    def compute(self, scheduler):
        return self.value


def engines():
    yield "one", {"workers": 1}
    yield "three", {"workers": 3}
    yield "files", {"workers": 2, "memory_limit": 0}


@pytest.fixture(params=engines(), ids=lambda param: param[0])
def space(request):
    return BlockSpace(Threads(**request.param[1]))


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(50, 4))


@pytest.fixture
def triplets(points):
    rng = np.random.default_rng(1)
    return np.array([rng.choice(len(points), 3, replace=False) for _ in range(sum(SIZES))])


def parts_of(values):
    return np.split(values, np.cumsum(SIZES)[:-1])


def vector(space, values):
    return space.source([Ready(part) for part in parts_of(values)])


def whole(vector):
    """The pieces of a vector, one after the other."""
    return np.concatenate(vector.space.gather(np.asarray, vector))


def difference_operator(triplets, points):
    return from_triplets(points, triplets)


def n_constraints(piece):
    return piece.n_constraints


def squares(values):
    return (values**2).sum()


def halves(values):
    return values / 2, values / 2


def first(pair):
    return pair[0]


def largest(values):
    return values.max()


def operator_in_blocks(space, points, triplets):
    pieces = space.map(difference_operator, vector(space, triplets), points=points)
    counts = space.gather(n_constraints, pieces)
    assert counts == list(SIZES)
    return BlockOperator(pieces, sum(counts), points.shape[1], points.dtype)


@pytest.fixture
def blocks(space, points, triplets):
    return operator_in_blocks(space, points, triplets)


def test_forward_and_adjoint_are_those_of_one_operator(blocks, points, triplets):
    dense, rng = from_triplets(points, triplets), np.random.default_rng(2)
    L, u = rng.normal(size=(4, 2)), rng.uniform(size=len(triplets))
    in_blocks = vector(blocks.space, u)
    assert_allclose(whole(blocks.forward_factor(L)), dense.forward_factor(L), rtol=1e-12)
    assert_allclose(whole(blocks.forward(L @ L.T)), dense.forward(L @ L.T), rtol=1e-10)
    adjoint = blocks.adjoint(in_blocks)
    assert_allclose(adjoint, dense.adjoint(u), rtol=1e-12, atol=1e-12)
    assert_allclose(blocks.precise_adjoint(in_blocks), adjoint, rtol=1e-9, atol=1e-9)
    S = L @ L.T
    (inner,) = blocks.space.totals(total(operator.matmul, blocks.forward(S), in_blocks))
    assert inner == pytest.approx(np.sum(S * blocks.adjoint(in_blocks)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_a_program_over_blocks_has_the_same_optimum(space, points, triplets, loss):
    """With a C so large that Newton directions come into play; larger yet with one worker."""
    C = 1e4 if space.engine.workers == 1 else 1e3
    parts = [Ready(part) for part in np.split(triplets, [40, 41, 120])]
    pieces = space.map(difference_operator, space.source(parts), points=points)
    blocks = BlockOperator(pieces, len(triplets), points.shape[1], points.dtype)
    whole = FrobeniusProgram(from_triplets(points, triplets), C, loss)
    solver = DualQuasiNewton(tol=1e-7, save_every=None)
    expected, found = solver.solve(whole), solver.solve(FrobeniusProgram(blocks, C, loss))
    assert found.history["evaluations"][-1] > 20
    assert found.certificate.meets(1e-7)
    assert_allclose(found.certificate.primal, expected.certificate.primal, rtol=2e-7)


def test_a_wider_operator_is_never_kept(blocks, points, triplets):
    narrow = BlockOperator(
        blocks.space.map(in_single_precision, blocks.blocks), len(triplets), 4, np.float32
    )
    exact, L = narrow.astype(np.float64), np.eye(4)
    margins = whole(exact.forward_factor(L))
    assert margins.dtype == np.float64
    assert exact.blocks.promise.column is None
    single = from_triplets(points, triplets).astype(np.float32).astype(np.float64)
    assert_allclose(margins, single.forward_factor(L), rtol=1e-12)
    assert narrow.adjoint(narrow.empty_constraint_vector() + 1).dtype == np.float32


def in_single_precision(piece):
    return piece.astype(np.float32)


def test_maps_wait_for_a_sum_and_sums_agree_with_arrays(space):
    u = np.random.default_rng(3).normal(size=sum(SIZES))
    a = vector(space, u)
    b = 2 * a - 1 / (a * a + 3) + (-a) / 4 - (5 - a)
    assert b.promise.column is None
    expected = 2 * u - 1 / (u * u + 3) - u / 4 - (5 - u)
    assert space.sum(squares, b) == pytest.approx(ARRAYS.sum(squares, expected), rel=1e-12)
    assert b.promise.column is not None
    assert_array_equal(whole(b), expected)
    assert space.totals(greatest(largest, b), total(np.square, 3.0)) == [expected.max(), 9.0]
    assert space.map(operator.add, 1.0, 2.0) == 3.0


def test_a_piece_may_be_a_tuple(space):
    u = np.arange(float(sum(SIZES)))
    pair = space.map(halves, vector(space, u))
    assert_array_equal(whole(space.map(first, pair)), u / 2)
    assert space.sum(squares, space.map(first, pair)) == pytest.approx((u**2).sum() / 4)


def test_what_nobody_holds_is_not_kept():
    engine = Threads(1)
    space = BlockSpace(engine)
    a = vector(space, np.ones(sum(SIZES)))
    b = (a + 1) * 2 + 3  # a + 1 and (a + 1) * 2 are only on the way
    space.compute(b)
    assert engine._store._used == 8 * sum(SIZES)
    del b
    gc.collect()
    assert engine._store._used == 0


def test_the_order_of_the_sum_is_that_of_the_blocks_on_any_number_of_workers(triplets, points):
    u = (
        np.random.default_rng(4).normal(size=sum(SIZES))
        * 10.0 ** np.arange(sum(SIZES))[::-1] ** 0.2
    )
    sums, adjoints = set(), set()
    for workers in (1, 2, 3, 7):
        space = BlockSpace(Threads(workers))
        pieces = space.map(difference_operator, vector(space, triplets), points=points)
        blocks = BlockOperator(pieces, sum(SIZES), 4, np.float64)
        sums.add(space.sum(np.sum, vector(space, u)))
        adjoints.add(blocks.adjoint(vector(space, u)).tobytes())
    assert len(sums) == len(adjoints) == 1


def test_what_a_block_makes_of_all_blocks(space):
    u = np.arange(sum(SIZES))
    a = vector(space, u)
    seen = space.gather(np.asarray, space.across(numbers_seen, a, a))
    for part, answer in zip(parts_of(u), seen, strict=True):
        assert_array_equal(answer, [[k, part[0], other[0]] for k, other in enumerate(parts_of(u))])


def numbers_seen(before, own, other, number):
    row = [[number, own[0], other[0]]]
    return np.array(row if before is None else [*before, *row])


def test_a_visit_that_failed_can_be_repeated(space):
    calls = []

    def refuse_once(values):
        calls.append(len(values))
        if len(calls) == 1:
            raise ZeroDivisionError
        return values

    a = space.map(refuse_once, vector(space, np.ones(sum(SIZES)))) + 1
    with pytest.raises(ZeroDivisionError):
        space.compute(a)
    assert_array_equal(whole(a), np.full(sum(SIZES), 2.0))


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("transient", [True, False])
def test_pieces_are_kept_while_something_can_still_ask_for_them(space, held, pending, transient):
    """A vector that one sum computes, and that its user holds or a later vector needs."""
    calls = []

    def counted(values):
        calls.append(len(values))
        return values + 1

    make = space.recomputed if transient else space.map
    a = make(counted, vector(space, np.ones(sum(SIZES))))
    now, later = 2 * a, (3 * a if pending else None)
    if not held:
        del a
    space.compute(now)
    assert len(calls) == len(SIZES)
    if pending:
        assert_array_equal(whole(later), np.full(sum(SIZES), 6.0))
    if held:
        assert_array_equal(whole(a), np.full(sum(SIZES), 2.0))
    visits = 1 + transient * (pending + held)
    assert len(calls) == visits * len(SIZES)


def test_a_state_is_saved_and_read_again(space, points, triplets, tmp_path):
    u = np.random.default_rng(5).normal(size=sum(SIZES))
    for number in (1, 2):
        space.keep_in(str(tmp_path), {"name": "a fit"})
        space.save_state(u=number * vector(space, u), number=number)
    later = BlockSpace(Threads(1))
    wanted = operator_in_blocks(later, points, triplets), "u", "number"
    assert later.resume(*wanted) is None
    later.keep_in(str(tmp_path), {"name": "a fit"})
    resumed = later.resume(*wanted)
    assert resumed["number"] == 2
    assert_array_equal(whole(resumed["u"]), 2 * u)
    later.save_state(u=resumed["u"], number=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "state"]
    later.keep_in(str(tmp_path), {"name": "another fit"})
    with pytest.raises(ValueError, match="holds the state of another fit"):
        later.resume(*wanted)


def test_pieces_without_room_go_to_files_that_go_with_them(tmp_path):
    store = Store(limit=100, folder=tmp_path)
    kept = store.put(np.ones(10), {})
    filed = store.put((np.arange(20.0), np.arange(3)), {})
    (folder,) = tmp_path.iterdir()
    assert len(list(folder.iterdir())) == 2
    known = {}
    a, b = filed.get(known)
    assert_array_equal(a, np.arange(20.0))
    again = store.put((b, a), known)  # read and handed on: no new file
    assert len(list(folder.iterdir())) == 2
    del filed, a, b, known
    gc.collect()
    assert len(list(folder.iterdir())) == 2
    assert_array_equal(again.get({})[1], np.arange(20.0))
    del again
    gc.collect()
    assert list(folder.iterdir()) == []
    assert_array_equal(kept.get({}), np.ones(10))
    del store, kept
    gc.collect()
    assert not folder.exists()


def test_there_is_memory():
    assert 1 << 20 < usable_memory() < 1 << 50


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_fit_on_devices_is_that_in_memory(points, dtype):
    da = pytest.importorskip("dask.array")
    X, y = points.astype(dtype), np.arange(len(points)) % 3
    with Threads(devices=["cpu", "cpu"]):
        fitted = FrobMetric().fit(da.from_array(X, chunks=(60, 4)), y)
    expected = FrobMetric().fit(X, y)
    assert fitted.components_.dtype == dtype
    assert fitted.objective_ == pytest.approx(expected.objective_, rel=2e-3)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_blocks_on_devices(points, triplets):
    import torch

    space = BlockSpace(Threads(2))
    pieces = space.map(on_device, vector(space, triplets), points=points, device="cpu")
    blocks = BlockOperator(pieces, len(triplets), 4, np.float64)
    dense, L = from_triplets(points, triplets), np.eye(4)[:, :2]
    margins = blocks.forward_factor(L)
    assert all(isinstance(part, torch.Tensor) for part in space.gather(torch.clone, margins))
    assert_allclose(
        blocks.adjoint(margins), dense.adjoint(dense.forward_factor(L)), rtol=1e-10, atol=1e-10
    )


def on_device(triplets, points, device):
    import torch

    return from_triplets(torch.as_tensor(points, device=device), torch.as_tensor(triplets))
