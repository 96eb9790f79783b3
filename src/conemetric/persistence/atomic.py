"""Files that appear under their name only once complete."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name when the block ends well,
    and vanishes when it does not.
    """
    path = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        with temporary.open("r+b") as file:  # Windows syncs only what is open for writing
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(FileNotFoundError):
            temporary.unlink()
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise


def _umask():
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
