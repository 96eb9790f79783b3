"""Fixtures every test may use: the array libraries installed, and small random instances."""

import importlib.util
from functools import partial

import numpy as np
import pytest

SEEDS = 8  # random instances of a test that are tried, unless --all-seeds asks for the others


def pytest_addoption(parser):
    parser.addoption("--all-seeds", action="store_true", help="try every random instance")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--all-seeds"):
        return
    beyond = [item for item in items if _seed(item) >= SEEDS]
    config.hook.pytest_deselected(items=beyond)
    items[:] = [item for item in items if _seed(item) < SEEDS]


def _seed(item):
    seed = item.callspec.params.get("seed", 0) if hasattr(item, "callspec") else 0
    return seed if isinstance(seed, int) else 0


def backends():
    """The array libraries installed, and the GPU where there is one."""
    if importlib.util.find_spec("torch") is None:
        return ["numpy"]
    import torch

    return ["numpy", "torch", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=backends())
def asarray(request):
    """Convert a NumPy array to the library under test, keeping its dtype."""
    if request.param == "numpy":
        return np.asarray
    import torch

    return partial(torch.as_tensor, device="cuda" if request.param == "cuda" else "cpu")


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture
def eps(dtype):
    """Relative tolerance that sums of a few thousand terms in ``dtype`` can be held to."""
    return 200 * float(np.finfo(dtype).eps)
