"""The files of a command: checked before the work starts, written whole or not at all."""

import csv
import io
import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .invocation import state

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

DEFAULT_FOLDER = "conemetric-out"
DECISION = "decision.safetensors"  # what learn calls it, and predict looks for


def check_free(paths: Iterable[Path], overwrite: bool) -> None:
    """Refuse to replace files unless told to."""
    if overwrite:
        return
    for path in paths:
        if path.exists():
            raise FileExistsError(
                f"'{path}' exists already; choose another place with --out, or replace it "
                "with --overwrite."
            )


def output_folder(chosen: Path | None, names: Sequence[str], overwrite: bool) -> Path:
    """The folder to write files of these names to, locked until the command ends; if none was
    chosen, a new one. It is made now, so that a place that cannot be written to is found before
    the work starts, and removed if nothing is written.
    """
    if chosen is not None:
        if not _lock_folder(chosen):
            raise FileExistsError(
                f"another conemetric is writing to '{chosen}'; choose another place with --out, or "
                "wait until it ends."
            )
        check_free([chosen / name for name in names], overwrite)
        return chosen

    def is_free(folder):
        return overwrite or not any((folder / name).exists() for name in names)

    folder = Path(DEFAULT_FOLDER)
    number = 1
    # checked again once it is locked: another process may have written to it and ended
    while not (is_free(folder) and _lock_folder(folder) and is_free(folder)):
        number += 1
        folder = Path(f"{DEFAULT_FOLDER}-{number}")
    return folder


def latest_written(name: str) -> Path | None:
    """The file of this name that was written last to a folder of `output_folder` in the working
    directory; None if there is none.
    """
    numbered = re.compile(rf"{DEFAULT_FOLDER}(-[0-9]+)?")
    found = []
    for path in Path().glob(f"{DEFAULT_FOLDER}*/{name}"):
        if numbered.fullmatch(path.parent.name):
            found.append(path)
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


def _lock_folder(folder):
    """Make the folder and lock it until the command ends; False if another process has locked it."""
    # noted before they are made: only these may be removed if nothing is written
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # can it be written to?
            pass
    except OSError as error:
        raise OSError(
            f"cannot write to '{folder}': {error.strerror}; choose another folder with --out."
        ) from error
    try:
        handle = _lock(folder)
    except (BlockingIOError, FileExistsError, FileNotFoundError):
        return False
    # run in reverse: the folder is removed while it is still locked
    state.at_end.callback(os.close, handle)
    state.at_end.callback(_remove_empty, made)
    return True


def _lock(folder):
    """A handle that locks the folder until it is closed or the process ends."""
    if fcntl is None:  # Windows removes the file with its handle
        return os.open(folder / ".lock", os.O_CREAT | os.O_EXCL | os.O_TEMPORARY)
    handle = os.open(folder, os.O_RDONLY)
    # the system gives up this lock of a process that was killed; a file would stay
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), os.stat(folder)):  # removed and made again
            raise BlockingIOError
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove_empty(folders):
    """Remove folders that were made for nothing, the innermost first."""
    with suppress(OSError):  # not empty, or gone
        for folder in folders:
            folder.rmdir()


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    from ..storage import atomic_path

    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_query(path: Path, query: Any) -> None:
    """Write a query for a search engine: a statement as text, a document as JSON."""
    if not isinstance(query, str):
        query = json.dumps(query, indent=2)
    write_text(path, query)


def as_rows(columns: dict[str, list]) -> list[dict[str, Any]]:
    """A dictionary for each row of these columns."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write dictionaries as CSV; a column missing from a row is empty."""
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
