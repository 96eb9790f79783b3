"""NumPy or PyTorch, inferred from the arrays themselves.

NumPy >= 2 and PyTorch share the part of the array API that the solvers use (``clip``, ``where``,
``sum``, ``linalg.eigh`` ...), so the namespace *is* the library: ``xp = namespace(X)``.

No function here imports PyTorch or Dask to recognise what it is given: whoever has such an array has
imported its library already, and all others are spared the seconds.
"""

import sys
from collections import Counter
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, TypeGuard, Union

import numpy as np

from .wording import listed

if TYPE_CHECKING:
    import torch
    from narwhals.typing import IntoDataFrame
    from numpy.typing import ArrayLike, DTypeLike
    from scipy.sparse import sparray, spmatrix

    from .sparse_rows import SparseRows

# An array of the library that a computation runs in.
Array = Union[np.ndarray, "torch.Tensor"]
Arrays = tuple[Array, ...]
Pair = tuple[Array, Array]
# One number for all constraints, or one for each.
Values = float | Array
# What a user passes as labels, weights or another vector.
Labels = Union["ArrayLike", "torch.Tensor"]
# What a user passes as points.
Rows = Union[Labels, "sparray", "spmatrix", "SparseRows", "IntoDataFrame"]
DType = Union["DTypeLike", "torch.dtype", None]


# ---- which library an array belongs to


def is_torch(array: object) -> TypeGuard["torch.Tensor"]:
    """Tell whether ``array`` is a PyTorch tensor."""
    return _package(array) == "torch"


def is_dask(value: object) -> bool:
    """Tell whether ``value`` is a Dask collection."""
    return _package(value) in ("dask", "dask_expr")


def _package(value: object) -> str:
    """Return the name of the package that defines the type of ``value``."""
    return type(value).__module__.partition(".")[0]


def namespace(*arrays: Rows | None) -> ModuleType:
    """Return ``numpy`` or ``torch``, the library of all these arrays; None belongs to either.

    A mixture is refused, since it would hide copies between devices.
    """
    kinds = {is_torch(array) for array in arrays if array is not None}
    if kinds == {True}:
        return sys.modules["torch"]
    if True in kinds:
        raise TypeError(
            "Got NumPy arrays and PyTorch tensors together; convert all inputs to one of them."
        )
    return np


def on_device(array: Rows) -> bool:
    """Tell whether ``array`` is in the memory of an accelerator."""
    return is_torch(array) and array.device.type != "cpu"


def is_float(value: object) -> bool:
    """Tell whether ``value`` is an array of floating-point numbers."""
    if is_torch(value):
        return bool(value.is_floating_point())
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


# ---- from one library, device or dtype to another


def as_array(values: Labels) -> Array:
    """Return a tensor as it is, and anything else as a NumPy array."""
    if is_torch(values):
        return values
    return np.asarray(values)


def to_numpy(array: Labels) -> np.ndarray:
    """Return ``array`` in host memory as a NumPy array, without a copy if it is there already."""
    if is_torch(array):
        return array.detach().cpu().numpy()
    return np.asarray(array)


def like(values: Labels, reference: Array, dtype: DType = None) -> Array:
    """Return ``values`` in the library and on the device of ``reference``.

    They have the dtype ``dtype``, or that of ``reference`` if it is None.
    """
    if dtype is None:
        dtype = reference.dtype
    if not is_torch(reference):
        return np.asarray(to_numpy(values), dtype=dtype)
    if not is_torch(values):
        values = sys.modules["torch"].as_tensor(np.asarray(values))
    return values.to(device=reference.device, dtype=dtype)


def float64(array: Array) -> Array:
    """Return ``array`` in double precision, where every certificate is evaluated."""
    if is_torch(array):
        return array.double()
    return array.astype(np.float64, copy=False)


# ---- new arrays


def zeros(shape: int | tuple[int, ...], reference: Array) -> Array:
    """Return zeros in the library, in the dtype and on the device of ``reference``."""
    return namespace(reference).zeros(shape, dtype=reference.dtype, device=reference.device)


def identity(n: int, reference: Array) -> Array:
    """Return the identity matrix in the library, in the dtype and on the device of ``reference``."""
    return namespace(reference).eye(n, dtype=reference.dtype, device=reference.device)


def arange(n: int, reference: Array) -> Array:
    """Return 0 ... n-1 as 64-bit integers, in the library and on the device of ``reference``."""
    xp = namespace(reference)
    return xp.arange(n, dtype=xp.int64, device=reference.device)


# ---- what the libraries spell differently


def to_index(mask: Array) -> Array:
    """Return the positions at which a boolean vector is true."""
    if is_torch(mask):
        return mask.nonzero()[:, 0]
    return np.flatnonzero(mask)


def take(X: Array, rows: Array) -> Array:
    """Return the rows of X with these numbers, which may be on the host while X is on a device."""
    return X[like(rows, X, namespace(X).int64)]


def transposed(matrix: Array) -> Array:
    """Return the transpose: on the host a contiguous copy, since its rows are read one by one."""
    if is_torch(matrix):
        return matrix.T
    return np.ascontiguousarray(matrix.T)


def unique_rows(matrix: Array) -> Pair:
    """Return the distinct rows, sorted, and the position of each row of ``matrix`` among them."""
    if is_torch(matrix):
        return matrix.unique(dim=0, return_inverse=True)
    return np.unique(matrix, axis=0, return_inverse=True)


# ---- input that no library reads as its user meant it


def refuse_masked(values: Labels, name: str) -> None:
    """Refuse masked entries, which NumPy would read as if they were not masked."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} has {np.ma.count_masked(values)} masked entries; fill them in, or drop their "
            "rows."
        )


def refuse_repeated_names(names: Iterable[object]) -> None:
    """Refuse names that more than one column has, before any library does in its own words."""
    count = Counter(name for name in names if isinstance(name, str | int | tuple))
    repeated = [name for name in count if count[name] > 1]
    if repeated:
        raise ValueError(
            f"X has more than one column {listed(repeated)}; rename them, or drop the copies "
            "(in pandas: X.loc[:, ~X.columns.duplicated()])."
        )
