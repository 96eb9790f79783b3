"""Safetensors files with a JSON header and a checksum over header and arrays: written whole or
not at all, and read only after every check. Loading one never executes anything in it.

A file holds a state, a nested dict of JSON values and NumPy arrays. Arrays are kept as tensors under
their dotted names, and the header refers to them; floats that JSON lacks are written as text.
"""

import hashlib
import json
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from ..core.fields import FieldError, expect
from ..core.slices import slices
from ..engine.certificate import Certificate, Status

MAX_BYTES = 4 << 30  # of a file: enough for 20,000 x 20,000 in float64
MAX_HEADER = 32 << 20  # characters
LENGTH_BYTES = 8  # of a safetensors header's length, and of its alignment
READ = 1 << 20  # numbers read at a time for the checksum
NUMBERS = ("F32", "F64", "I64", "U64", "I32", "U8", "BOOL")  # types of the arrays of a state
# keys of what stands for a value
TENSOR = "$tensor"
FLOAT = "$float"
ORDER = "order"
FLOATS = ("inf", "-inf", "nan")
HEADER = ("format", "kind", "state")
AnyPath = str | os.PathLike[str]


@contextmanager
def atomic_path(path: AnyPath) -> Iterator[Path]:
    """A temporary file beside ``path``, renamed to it if the block succeeds, deleted if it fails."""
    path = Path(path)
    # no folder is made: a path with a slip would otherwise hide what was written
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder '{path.parent}' for '{path.name}'; make it first."
        )
    # in the same folder, since only there is renaming atomic; under a name
    # that no other process uses
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    temporary.touch(exist_ok=False)  # with the permissions of any new file
    try:
        yield temporary
        # on the disk before the name points to it: after a crash there is
        # the old file or the new one
        with temporary.open("r+b") as file:  # Windows syncs only files open for writing
            os.fsync(file.fileno())
        temporary.replace(path)
    # Ctrl-C, too, leaves no half-written file
    except BaseException as error:
        with suppress(FileNotFoundError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


class MetricFileError(ValueError):
    """The file is not a metric or a decision that this version can load."""


def write_state(path: AnyPath, kind: str, version: int, state: dict[str, Any]) -> None:
    """Write the state of an object, atomically, as a file of this kind and format."""
    values, arrays = split_state(state)
    try:
        text = json.dumps({"format": version, "kind": kind, "state": values}, allow_nan=False)
    except (TypeError, ValueError) as error:
        advice = "a file keeps text, numbers, booleans and arrays, and notes of JSON values."
        raise type(error)(f"{error}; {advice}") from error
    _parse(text, path)  # an error now rather than at loading
    metadata = {"conemetric": text, "sha256": digest(text, arrays)}
    header, rest = _in_fixed_order(to_safetensors(arrays, metadata))
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(header)
        file.write(rest)


def _in_fixed_order(file: bytes) -> tuple[bytes, memoryview]:
    """A safetensors ``file`` as its header, with sorted keys, and the bytes after it.

    Safetensors writes the metadata in random order, so that one metric gave two different files. A
    file is the length of the header in 8 bytes, the header padded with spaces, and the arrays,
    whose places are counted from the end of the header.
    """
    start = LENGTH_BYTES + int.from_bytes(file[:LENGTH_BYTES], "little")
    values = json.loads(file[LENGTH_BYTES:start])
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    header = text.encode()
    header += b" " * (-len(header) % LENGTH_BYTES)  # arrays begin at a multiple of 8
    return len(header).to_bytes(LENGTH_BYTES, "little") + header, memoryview(file)[start:]


def read_state(path: AnyPath, kind: str, newest: int) -> Any:
    """The state in a file of this kind, to be checked by the object that it is the state of."""
    with _opened(path, kind) as (file, text, header):
        _check_header(path, header, kind, newest)
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        for name, array in found.items():
            fault = f"holds {name} of type {array.get_dtype()}, not one of {', '.join(NUMBERS)}"
            # before anything is read: safetensors has types that NumPy lacks
            require(array.get_dtype() in NUMBERS, path, fault)
        same = file.metadata().get("sha256") == digest(text, found)
        require(same, path, "was changed after it was written: its checksum does not match")
        arrays = {name: file.get_tensor(name) for name in found}
    with fields_of_file(path):
        return join_state(header["state"], arrays)


def _check_header(path: AnyPath, header: Any, kind: str, newest: int) -> None:
    """Refuse the header of another kind of file, or of a format that this version does not read."""
    misfit = "has a header that does not fit"
    require(isinstance(header, dict), path, f"{misfit}: it is not an object")
    advice = f"pass a {kind} file, which conemetric learn calls {kind}.safetensors"
    fault = f"holds a {header.get('kind')!s:.20}, not a {kind}; {advice}"
    require(header.get("kind") == kind, path, fault)
    version = header.get("format")
    require(isinstance(version, int) and version >= 1, path, f"{misfit}: no format number")
    # before the fields, since a newer format may have others
    advice = f"is newer than the {newest} this version reads; upgrade conemetric"
    require(version <= newest, path, f"{misfit}: format {version} {advice}")
    listed = ", ".join(HEADER)
    require(set(header) == set(HEADER), path, f"{misfit}: it holds other fields than {listed}")


@contextmanager
def fields_of_file(path: AnyPath) -> Iterator[None]:
    """Turn the refusal of a stored field into a `MetricFileError` that names the file."""
    try:
        yield
    except (FieldError, RecursionError) as error:
        fault = str(error)
        if isinstance(error, RecursionError):
            fault = "its header is nested too deep"
        raise MetricFileError(f"'{path}' cannot be used: {fault}.") from error


def kind_of(path: AnyPath) -> Any:
    """What the header of the file claims to hold: "metric" or "decision"."""
    with _opened(path, "metric or decision") as (_, _, header):
        if not isinstance(header, dict):
            return None
        return header.get("kind")


@contextmanager
def _opened(path: AnyPath, kind: str) -> Iterator[tuple[Any, str, Any]]:
    """The open file, its header as text, and parsed."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no {kind} file at '{path}'; check the path.")
    size = path.stat().st_size
    require(size <= MAX_BYTES, path, f"has {size:,} bytes; a {kind} file has at most {MAX_BYTES:,}")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("conemetric", "")
            require(text, path, "is a safetensors file, but not one that conemetric wrote")
            yield file, text, _parse(text, path)
    except SafetensorError as error:
        raise MetricFileError(f"'{path}' is not a {kind} file, or is damaged: {error}.") from error


def digest(header: str, arrays: dict[str, Any]) -> str:
    """Checksum of the header and of arrays or slices of a file, read in blocks so that a
    damaged file is refused before it fills memory.
    """
    sha256 = hashlib.sha256(header.encode())
    for name in sorted(arrays):
        array = arrays[name]
        if isinstance(array, np.ndarray):
            shape = array.shape
        else:
            shape = array.get_shape()
        for rows in slices(shape[0], math.prod(shape[1:]), READ):
            sha256.update(np.ascontiguousarray(array[rows]).data)
    return sha256.hexdigest()


def require(condition: object, path: Any, fault: str) -> None:
    """An error that names the file and its fault unless the condition holds."""
    if not condition:
        raise MetricFileError(f"'{path}' {fault}.")


def _parse(text: str, path: AnyPath) -> Any:
    """The JSON of a header, which has neither NaN nor infinity."""
    size = len(text)
    fault = f"has a header of {size:,} characters; at most {MAX_HEADER:,} are read"
    require(size <= MAX_HEADER, path, fault)

    def refuse(constant):
        raise ValueError(f"{constant} is not a number")

    try:
        return json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # also for integers of thousands of digits
        raise MetricFileError(f"'{path}' has a header that is not JSON: {error}.") from error


# ---- states


def split_state(state: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The header and the arrays by dotted name. Arrays are C-contiguous; the header says which
    were in Fortran order, which decides the last bits of a matrix product.
    """
    arrays: dict[str, np.ndarray] = {}
    return _split(state, "", arrays), arrays


def _split(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """What stands for a value in the header; its arrays are added to ``arrays``."""
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value)
        place = {TENSOR: name}
        if value.flags.f_contiguous and not value.flags.c_contiguous:
            place[ORDER] = "F"
        return place
    if isinstance(value, dict):
        return {key: _split(each, _field(name, key), arrays) for key, each in value.items()}
    if isinstance(value, list):
        return [_split(each, f"{name}.{number}", arrays) for number, each in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {FLOAT: str(value)}
    return value


def _field(name: str, key: Any) -> str:
    """The dotted name of a field of the object with this name; that of the state is empty."""
    return f"{name}.{key}".strip(".")


def join_state(header: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The state that `split_state` took apart; a `FieldError` for one that no state has."""
    left = dict(arrays)
    state = _join(header, "", left)
    for name, array in left.items():
        expect(False, name, array, "an array that the header refers to")
    return state


def _join(value: Any, name: str, left: dict[str, np.ndarray]) -> Any:
    """The value for which this stands in a header; its arrays are taken from those ``left``."""
    if isinstance(value, list):
        return [_join(each, f"{name}.{number}", left) for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if TENSOR in value:
        order = value.get(ORDER, "C")
        # an array stands in one place of the state, that of its own name: so
        # none is referred to twice
        known = value[TENSOR] == name and name in left and order in ("C", "F")
        expect(known and set(value) <= {TENSOR, ORDER}, name, value, "an array of the file")
        return np.asarray(left.pop(name), order=order)
    if FLOAT in value:
        text = value[FLOAT]
        known = isinstance(text, str) and text in FLOATS and len(value) == 1
        expect(known, name, value, f"one of {', '.join(FLOATS)}")
        return float(text)
    return {key: _join(each, _field(name, key), left) for key, each in value.items()}


def same_state(one: Any, other: Any) -> bool:
    """Whether two states are equal, arrays to the bit."""
    header, arrays = split_state(one)
    other_header, other_arrays = split_state(other)
    if header != other_header:
        return False
    return all(np.array_equal(array, other_arrays[name]) for name, array in arrays.items())


# ---- values in headers that are read by others


def json_value(value: Any) -> Any:
    """``value`` as JSON can hold it; arrays and other objects become a description."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Status) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if hasattr(value, "shape"):
        return f"array {tuple(value.shape)}"
    return type(value).__name__


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Named values as JSON can hold them."""
    return {name: json_value(value) for name, value in values.items()}


def certificate_values(certificate: Certificate | None) -> dict[str, Any] | None:
    """A certificate as JSON values; None for None."""
    if certificate is None:
        return None
    return json_values(certificate.state())
