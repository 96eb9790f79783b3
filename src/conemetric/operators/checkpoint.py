"""The state of a solve in files: for a later process to go on from, and so that what a
dead worker held need not be computed again from the beginning.

A checkpoint is a folder, on a disk that all workers see or in an object store (any
address that fsspec knows). Every state has a folder of its own in it, one file for each
vector and block; the file ``state``, written last, says which one is whole.
"""

import pickle
import posixpath
from typing import Any

import numpy as np

from ..extras import require


class Checkpoint:
    """See the module docstring.

    Parameters
    ----------
    folder : str
        A path or an address like ``s3://bucket/fit``.
    label : hashable
        What the solve is of; a state of anything else is refused.
    """

    def __init__(self, folder: str, label: Any = None):
        self.folder, self.label, self._serial = str(folder).rstrip("/"), label, 0

    def write(self, engine, columns: dict[str, Any], small: dict[str, Any]) -> dict[str, Any]:
        """Save a state, forget the one before, and return the columns as read from it."""
        files, root = self._files()
        last, self._serial = self._serial, self._serial + 1
        own = f"{self.folder}/{self._serial}"
        files.makedirs(f"{root}/{self._serial}", exist_ok=True)
        saved = {name: engine.save(column, f"{own}/{name}") for name, column in columns.items()}
        record = {
            "label": self.label,
            "serial": self._serial,
            "n_blocks": {name: engine.n_blocks_of(column) for name, column in columns.items()},
            "small": small,
        }
        with files.open(f"{root}/state.new", "wb") as file:
            pickle.dump(record, file)
        files.mv(f"{root}/state.new", f"{root}/state")
        if last and files.exists(f"{root}/{last}"):
            files.rm(f"{root}/{last}", recursive=True)
        return saved

    def read(self, engine) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """(columns, small values) of the last state; None where there is none yet."""
        files, root = self._files()
        if not files.exists(f"{root}/state"):
            return None
        with files.open(f"{root}/state", "rb") as file:
            record = pickle.load(file)
        if record["label"] != self.label:
            raise ValueError(
                f"checkpoint={self.folder!r} holds the state of another fit ({record['label']}, "
                f"not {self.label}); give another folder, or empty this one."
            )
        self._serial = record["serial"]
        folder = f"{self.folder}/{self._serial}"
        columns = {
            name: engine.load(f"{folder}/{name}", n_blocks)
            for name, n_blocks in record["n_blocks"].items()
        }
        return columns, record["small"]

    def _files(self):
        """The file system of the folder, and its path there."""
        return require("fsspec.core", "cluster").url_to_fs(self.folder)


def write_piece(piece, address):
    """Write one piece to a file of its own."""
    files, path = require("fsspec.core", "cluster").url_to_fs(address)
    files.makedirs(posixpath.dirname(path), exist_ok=True)
    with files.open(path, "wb") as file:
        dump(piece, file)


def read_piece(address):
    """Read what `write_piece` wrote."""
    with require("fsspec", "cluster").open(address, "rb") as file:
        return load(file)


def dump(piece, file):
    """Write a piece: its pickle, then the bytes of its arrays."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(piece, protocol=5, buffer_callback=buffers.append)
    sizes = [buffer.raw().nbytes for buffer in buffers]
    pickle.dump((head, sizes), file)
    for buffer in buffers:
        file.write(buffer.raw())


def load(file):
    """Read what `dump` wrote."""
    head, sizes = pickle.load(file)
    buffers: list = []
    for size in sizes:
        buffer = np.empty(size, np.uint8)
        view, done = buffer.data, 0
        while done < size:
            read = file.readinto(view[done:])
            if not read:
                raise EOFError(f"{file} ends in the middle of an array.")
            done += read
        buffers.append(buffer)
    return pickle.loads(head, buffers=buffers)
