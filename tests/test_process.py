"""Process-wide state stays unchanged, also when many threads work at once."""

import os
import stat
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from conemetric.neighbours.search import neighbours_by_label
from conemetric.storage import atomic_path

THREADS = 8


def in_threads(function, count=200):
    """Call ``function(number)`` from several threads at once."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(function, range(count)))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_new_files_have_usual_permissions_and_the_mask_is_never_touched(
    mask, tmp_path, monkeypatch
):
    def write(number):
        with atomic_path(tmp_path / str(number)) as temporary:
            temporary.write_text("text")

    before, change = os.umask(mask), os.umask
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", None)
            in_threads(write)
    finally:
        change(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 200 and modes == {0o666 & ~mask}


@pytest.mark.parametrize("allowed", [True, False])
def test_flags_of_pytorch_are_as_before_after_searches_in_threads(allowed):
    torch = pytest.importorskip("torch")
    from conemetric.neighbours.gpu import _sums_in_float32

    flags = "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"
    matmul = torch.backends.cuda.matmul
    before = [getattr(matmul, flag) for flag in flags]

    def work(number):
        with _sums_in_float32():
            assert not any(getattr(matmul, flag) for flag in flags)

    try:
        for flag in flags:
            setattr(matmul, flag, allowed)
        in_threads(work)
        assert [getattr(matmul, flag) for flag in flags] == [allowed, allowed]
    finally:
        for flag, value in zip(flags, before, strict=True):
            setattr(matmul, flag, value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_searches_in_threads_give_the_answers_of_one_alone(dtype):
    def answer(seed):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(300, 4)).astype(dtype), rng.integers(0, 3, 300)
        return neighbours_by_label(X, y, 3, 3)

    for seed, found in enumerate(in_threads(answer, 8)):
        for one, other in zip(found[:2], answer(seed)[:2], strict=True):
            np.testing.assert_array_equal(one, other)
