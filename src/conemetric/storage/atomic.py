"""Files that appear under their name only once complete."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside ``path``: renamed to it when the block succeeds, deleted when
    it fails.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder '{path.parent}' for '{path.name}'; make it first."
        )
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    temporary.touch(exist_ok=False)  # with the permissions of any new file
    try:
        yield temporary
        with temporary.open("r+b") as file:  # Windows syncs only files open for writing
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
