"""Fixtures every test may use: the array libraries installed, and small random instances."""

import importlib.util

import numpy as np
import pytest

BACKENDS = ["numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]


@pytest.fixture(params=BACKENDS)
def asarray(request):
    """Convert a NumPy array to the library under test, keeping its dtype."""
    if request.param == "numpy":
        return np.asarray
    import torch

    return torch.as_tensor


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture
def eps(dtype):
    """Relative tolerance that sums of a few thousand terms in ``dtype`` can be held to."""
    return 200 * float(np.finfo(dtype).eps)
