"""Where a command writes: free places, found out before the work, and whole files."""

import csv
import io
import itertools
from pathlib import Path

from ..persistence import atomic_path

DEFAULT_FOLDER = "conemetric-out"


def check_free(paths, overwrite):
    """Refuse to replace files, unless that is wanted."""
    taken = [path for path in paths if path.exists()]
    if taken and not overwrite:
        raise FileExistsError(
            f"'{taken[0]}' is there already; choose another place by --out, or replace it by "
            "--overwrite."
        )


def output_folder(chosen, names, overwrite):
    """The folder to write files of these names to, made now, so that a read-only place is
    found out before the work; where none was chosen, a new one.
    """
    if chosen is None:
        numbered = (Path(f"{DEFAULT_FOLDER}-{number}") for number in itertools.count(2))
        candidates = itertools.chain([Path(DEFAULT_FOLDER)], numbered)
        free = (path for path in candidates if not any((path / name).exists() for name in names))
        chosen = Path(DEFAULT_FOLDER) if overwrite else next(free)
    check_free([chosen / name for name in names], overwrite)
    try:
        chosen.mkdir(parents=True, exist_ok=True)
        with atomic_path(chosen / names[0]) as probe:
            probe.touch()
            raise _Probed
    except _Probed:
        pass
    except OSError as error:
        raise OSError(
            f"cannot write to '{chosen}': {error.strerror}; choose another folder by --out."
        ) from error
    return chosen


class _Probed(Exception):
    pass


def write_csv(path, rows):
    """Write dictionaries as CSV, whole or not at all; a column missing from a row is empty."""
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for values in rows for name in values))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with atomic_path(path) as temporary:
        temporary.write_text(text.getvalue(), encoding="utf-8")
