"""What readers are asked for: which columns are what, how a file is written, where collections are.

These classes know nothing of a command line. The options classes of the commands are subclasses,
which make an option of some of the fields.
"""

import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

OPTION_NAMES = {"id_column": "id"}  # of fields whose option is not called as they are
DIALECT = ("separator", "decimal", "encoding", "header")  # fields of `Reading` about CSV files


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read the data: which columns are what, and how the file is written."""

    label: str | None = None
    labels: Path | None = None
    target: str = "auto"
    pairs: Path | None = None
    triplets: Path | None = None
    groups: str | None = None
    id_column: str | None = None
    ignore: list[str] | None = None
    categorical: list[str] | None = None
    numeric: list[str] | None = None
    drop_missing: bool = False
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    header: bool | None = None
    missing: list[str] | None = None

    def offers(self, name: str) -> bool:
        """Whether a user can set this field: messages advise no other."""
        return False

    def is_chosen(self, name: str) -> bool:
        """Whether this field has another value than where its option is not given."""
        return getattr(self, name) != getattr(type(self), name)

    def without_dialect(self) -> Self:
        """The same for a file that is not CSV, beside one that is."""
        unset: dict[str, Any] = dict.fromkeys(("missing", *DIALECT))
        return replace(self, **unset)

    def remedies(self, joint: str = ", or ", **advice: str) -> str:
        """Other remedies: the advice whose option this command offers."""
        return "".join(f"{joint}{text}" for name, text in advice.items() if self.offers(name))


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where queries, documents and judgements are, and which other scores to learn with."""

    queries: Path | None = None
    documents: Path | None = None
    relevance: Path | None = None
    encode: str | None = None
    lexical: bool = False
    language: str = "english"
    scores: list[Path] | None = None
    server: str | None = None


def check_file(path: str | Path, kind: str = "") -> Path:
    """The path, if a file is there; ``kind``: what it should hold."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no {f'{kind} file'.strip()} '{path}'.")
    if path.is_dir():
        raise IsADirectoryError(f"'{path}' is a folder; specify a file.")
    return path


def as_given(name: str, value: Any) -> str:
    """An option with its value, as on the command line."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    if isinstance(value, list):
        value = value[0]
    return f"--{name} {argument(str(value))}"


def argument(name: str) -> str:
    """A name as an argument on the command line, in quotation marks that every shell takes, if any."""
    if re.fullmatch(r"[\w.+/:@%-]+", name):
        return name
    if re.search(r'["$`\\!]', name):
        return shlex.quote(name)
    return f'"{name}"'
