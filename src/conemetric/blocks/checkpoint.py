"""The state of a solve in files, to resume from.

A checkpoint is a folder, on a disk that all workers see or in an object store (any address that
fsspec knows). Every state has its own subfolder, with one safetensors file for each array and for
each block of a vector. The JSON file ``state``, written last, names the complete one. Nothing in
these files is ever executed, and only ``state`` is read before its label is found to match this fit.
"""

import json
import posixpath
from collections.abc import Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_safetensors
from safetensors.numpy import save as to_safetensors

from ..core.arrays import to_numpy
from ..core.extras import require

MAX_STATE = 1 << 24  # bytes read of the file ``state``, far above what a solver writes
RECORD = ("label", "serial", "vectors", "numbers")  # what the file ``state`` holds
REMEDY = "pass another folder as checkpoint=, or empty this one to start again."


class Checkpoint:
    """A folder, a path or an address like ``s3://bucket/fit``, for states of the solve that
    ``label`` (JSON values) describes; the state of any other solve is refused.
    """

    def __init__(self, folder: str, label: dict[str, Any]):
        self.folder = str(folder).rstrip("/")
        self.label = label
        self._serial = 0

    def write(self, engine: Any, columns: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
        """Save a state, delete the previous one, and return the columns as read back."""
        files, root = self._files()
        last = self._serial
        self._serial = last + 1
        own = f"{self.folder}/{self._serial}"
        saved = {}
        for name, column in columns.items():
            saved[name] = engine.save(column, f"{own}/{name}")
        numbers = {}
        for name, value in small.items():
            if hasattr(value, "dtype"):
                write_array(value, f"{own}/{name}")
            else:
                numbers[name] = value
        record = {
            "label": self.label,
            "serial": self._serial,
            "vectors": list(columns),
            "numbers": numbers,
        }
        files.makedirs(root, exist_ok=True)
        # under another name, renamed when it is whole: a fit that dies here
        # resumes from the state before
        with files.open(f"{root}/state.new", "wb") as file:
            file.write(json.dumps(record).encode())
        files.mv(f"{root}/state.new", f"{root}/state")
        # only now, when ``state`` no longer names it
        if last and files.exists(f"{root}/{last}"):
            files.rm(f"{root}/{last}", recursive=True)
        return saved

    def read(
        self, engine: Any, names: Sequence[str], n_blocks: int
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """(columns, small values) of the last state, vectors in ``n_blocks`` blocks; None before the first."""
        files, root = self._files()
        if not files.exists(f"{root}/state"):
            return None
        with files.open(f"{root}/state", "rb") as file:
            text = file.read(MAX_STATE)
        try:
            record = json.loads(text)
            label, serial, vectors, numbers = (record[key] for key in RECORD)
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise self._fault(f"'{self.folder}/state' is not the state of a fit") from error
        if label != self.label:
            raise self._fault(f"it holds the state of another fit ({self._other(label)})")
        if not (_is_serial(serial) and isinstance(vectors, list) and _are_numbers(numbers)):
            raise self._fault(f"'{self.folder}/state' is damaged")
        self._serial = serial
        columns = {}
        small = {}
        for name in names:
            address = f"{self.folder}/{serial}/{name}"
            if name in vectors:
                columns[name] = engine.load(address, n_blocks)
            elif name in numbers:
                small[name] = numbers[name]
            else:
                small[name] = read_array(address)
        return columns, small

    def _fault(self, what: str) -> ValueError:
        return ValueError(f"cannot resume from checkpoint={self.folder!r}: {what}; {REMEDY}")

    def _other(self, label: Any) -> str:
        """Return how the label of another fit differs, in words."""
        if isinstance(label, dict):
            for name, own in self.label.items():
                if label.get(name) != own:
                    return f"{name} is {own!r} here and {label.get(name)!r} there"
        return "with other parameters"

    def _files(self) -> tuple[Any, str]:
        """Return the file system of the folder, and its path there."""
        return require("fsspec.core", "cluster").url_to_fs(self.folder)


def _is_serial(value: Any) -> bool:
    # True is an int too
    return type(value) is int and value > 0


def _are_numbers(values: Any) -> bool:
    if not isinstance(values, dict):
        return False
    return all(type(value) in (int, float) for value in values.values())


def write_array(array: Any, address: str) -> None:
    """Write an array or a NumPy number to a file of its own."""
    files, path = require("fsspec.core", "cluster").url_to_fs(address)
    files.makedirs(posixpath.dirname(path), exist_ok=True)
    array = to_numpy(array)
    # sums may depend on the order in memory, so it must be the same after reading
    is_by_columns = not array.flags.c_contiguous and array.flags.f_contiguous
    if array.ndim == 2 and is_by_columns:
        stored = {"columns": array.T}
    else:
        stored = {"rows": np.asarray(array, order="C")}
    with files.open(path, "wb") as file:
        file.write(to_safetensors(stored))


def read_array(address: str) -> Any:
    """Read what `write_array` wrote."""
    try:
        with require("fsspec", "cluster").open(address, "rb") as file:
            ((order, array),) = from_safetensors(file.read()).items()
    except (SafetensorError, ValueError, OSError) as error:
        raise ValueError(
            f"'{address}' of a checkpoint is missing or damaged ({error}); {REMEDY}"
        ) from error
    if order == "columns":
        return array.T
    if array.ndim == 0:
        return array[()]
    return array
