"""Which array library the caller speaks: NumPy or PyTorch, inferred from the arrays themselves.

NumPy >= 2 and PyTorch share the part of the array API that the solvers use (``clip``,
``where``, ``sum``, ``linalg.eigh`` ...), so the namespace *is* the library: ``xp =
namespace(X)``.
"""

import numpy as np


def is_torch(array):
    """Tell whether ``array`` is a PyTorch tensor, without importing PyTorch."""
    return type(array).__module__.partition(".")[0] == "torch"


def namespace(*arrays):
    """Return ``numpy`` or ``torch``; refuse a mixture, which would hide copies between devices."""
    kinds = {is_torch(array) for array in arrays if array is not None}
    if kinds == {True}:
        import torch

        return torch
    if True in kinds:
        raise TypeError(
            "Got NumPy arrays and PyTorch tensors together; convert all inputs to one of them."
        )
    return np


def on_device(array):
    """Whether ``array`` is in the memory of an accelerator."""
    return is_torch(array) and array.device.type != "cpu"


def as_array(values):
    """``values`` as they are where they are a tensor, else as a NumPy array."""
    return values if is_torch(values) else np.asarray(values)


def to_numpy(array):
    """Copy ``array`` to host memory as a NumPy array (a view when it already is one)."""
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


def refuse_masked(values, name):
    """Refuse what NumPy would read as if nothing were masked."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} has {np.ma.count_masked(values)} masked entries; fill them in, or drop their "
            "rows."
        )


def like(values, reference, dtype=None):
    """Convert ``values`` to the library and device of ``reference`` (and to its dtype,
    unless given).
    """
    dtype = reference.dtype if dtype is None else dtype
    if is_torch(reference):
        import torch

        values = values if is_torch(values) else torch.as_tensor(np.asarray(values))
        return values.to(device=reference.device, dtype=dtype)
    return np.asarray(to_numpy(values), dtype=dtype)


def zeros(shape, reference):
    """Zeros in the library, dtype and on the device of ``reference``."""
    xp = namespace(reference)
    return xp.zeros(shape, dtype=reference.dtype, device=reference.device)


def arange(n, reference):
    """0 ... n-1 as 64-bit integers, in the library and on the device of ``reference``."""
    xp = namespace(reference)
    return xp.arange(n, dtype=xp.int64, device=reference.device)


def to_index(mask):
    """Positions where a boolean vector is true."""
    return mask.nonzero()[:, 0] if is_torch(mask) else np.flatnonzero(mask)


def transposed(matrix):
    """The transpose, contiguous on the host, where rows are read one by one."""
    return matrix.T if is_torch(matrix) else np.ascontiguousarray(matrix.T)


def unique_rows(matrix):
    """The distinct rows, sorted, and for each row its number among them."""
    if is_torch(matrix):
        return matrix.unique(dim=0, return_inverse=True)
    return np.unique(matrix, axis=0, return_inverse=True)


def float64(array):
    """``array`` in double precision, where every certificate is evaluated."""
    return array.astype(np.float64, copy=False) if not is_torch(array) else array.double()


def is_scalar(value):
    """Whether a weight, bound or size is one number for all constraints, not a vector of them."""
    return isinstance(value, float)


def is_float(value):
    """Whether ``value`` is an array of floating-point numbers."""
    if is_torch(value):
        return value.is_floating_point()
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
