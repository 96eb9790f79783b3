"""NumPy or PyTorch, inferred from the arrays themselves.

NumPy >= 2 and PyTorch share the part of the array API that the solvers use (``clip``, ``where``,
``sum``, ``linalg.eigh`` ...), so the namespace *is* the library: ``xp = namespace(X)``.
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

Array = Union[np.ndarray, "torch.Tensor"]
Labels = Union["ArrayLike", "torch.Tensor"]  # and other vectors that a user gives
Rows = Union[Labels, "sparray", "spmatrix", "SparseRows", "IntoDataFrame"]
DType = Union["DTypeLike", "torch.dtype", None]
Arrays = tuple[Array, ...]
Pair = tuple[Array, Array]
Values = float | Array  # one number, or one per constraint


def is_torch(array: object) -> TypeGuard["torch.Tensor"]:
    """Tell whether ``array`` is a PyTorch tensor, without importing PyTorch."""
    return type(array).__module__.partition(".")[0] == "torch"


def namespace(*arrays: Rows | None) -> ModuleType:
    """``numpy`` or ``torch``; mixtures are refused, since they would hide copies between devices."""
    kinds = {is_torch(array) for array in arrays if array is not None}
    if kinds == {True}:
        return sys.modules["torch"]
    if True in kinds:
        raise TypeError(
            "Got NumPy arrays and PyTorch tensors together; convert all inputs to one of them."
        )
    return np


def on_device(array: Rows) -> bool:
    """Whether ``array`` is in the memory of an accelerator."""
    return is_torch(array) and array.device.type != "cpu"


def as_array(values: Labels) -> Array:
    """A tensor as it is, anything else as a NumPy array."""
    return values if is_torch(values) else np.asarray(values)


def to_numpy(array: Labels) -> np.ndarray:
    """``array`` in host memory as a NumPy array, without a copy if it is there already."""
    return array.detach().cpu().numpy() if is_torch(array) else np.asarray(array)


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
    twice = [name for name in count if count[name] > 1]
    if twice:
        raise ValueError(
            f"X has more than one column {listed(twice)}; rename them, or drop the copies "
            "(in pandas: X.loc[:, ~X.columns.duplicated()])."
        )


def like(values: Labels, reference: Array, dtype: DType = None) -> Array:
    """``values`` in the library and on the device of ``reference``, of ``dtype`` or its dtype."""
    dtype = reference.dtype if dtype is None else dtype
    if is_torch(reference):
        import torch

        values = values if is_torch(values) else torch.as_tensor(np.asarray(values))
        return values.to(device=reference.device, dtype=dtype)
    return np.asarray(to_numpy(values), dtype=dtype)


def zeros(shape: int | tuple[int, ...], reference: Array) -> Array:
    """Zeros in the library, dtype and on the device of ``reference``."""
    return namespace(reference).zeros(shape, dtype=reference.dtype, device=reference.device)


def identity(n: int, reference: Array) -> Array:
    """The identity matrix in the library, dtype and on the device of ``reference``."""
    return namespace(reference).eye(n, dtype=reference.dtype, device=reference.device)


def arange(n: int, reference: Array) -> Array:
    """0 ... n-1 as 64-bit integers, in the library and on the device of ``reference``."""
    xp = namespace(reference)
    return xp.arange(n, dtype=xp.int64, device=reference.device)


def to_index(mask: Array) -> Array:
    """Positions where a boolean vector is true."""
    return mask.nonzero()[:, 0] if is_torch(mask) else np.flatnonzero(mask)


def take(X: Array, rows: Array) -> Array:
    """The rows of X with these numbers, given on the host."""
    return X[like(rows, X, namespace(X).int64)]


def transposed(matrix: Array) -> Array:
    """The transpose, contiguous on the host, where rows are read one by one."""
    return matrix.T if is_torch(matrix) else np.ascontiguousarray(matrix.T)


def unique_rows(matrix: Array) -> Pair:
    """The distinct rows, sorted, and the position of each row among them."""
    if is_torch(matrix):
        return matrix.unique(dim=0, return_inverse=True)
    return np.unique(matrix, axis=0, return_inverse=True)


def float64(array: Array) -> Array:
    """``array`` in double precision, where every certificate is evaluated."""
    return array.double() if is_torch(array) else array.astype(np.float64, copy=False)


def is_float(value: object) -> bool:
    """Whether ``value`` is an array of floating-point numbers."""
    if is_torch(value):
        return bool(value.is_floating_point())
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"
