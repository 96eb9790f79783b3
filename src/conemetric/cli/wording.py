"""Wording of answers: tables for the screen, and the results of a fit."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from ..core.wording import first_few, listed, plural  # noqa: F401

if TYPE_CHECKING:
    from ..engine.certificate import Certificate
    from ..evaluation.thresholds import ThresholdPromise


def all_of_them(n: int, complete: bool) -> list[str]:
    """A last line under the first of ``n`` rows, unless these are complete."""
    if complete:
        return []
    return [f"the first of {plural(n, 'row')}; all of them: --out FILE.csv"]


def grid(title: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table for the screen: names in its first column, numbers in the others."""
    table = Table(title_justify="left")
    if title:
        table.title = escape(title)
    names, *numbers = headings
    table.add_column(names, justify="left")
    for heading in numbers:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def written(out: Path, files: str) -> str:
    """A line that says which files were written where."""
    return f"written to {escape(str(out))}: {files}"


def places(out: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Where the files of each kind are, for JSON."""
    return {kind: str(out / file) for kind, file in files.items()}


def command_line(*words: object) -> str:
    """A command that can be pasted into the shell of this system, whatever its words hold."""
    texts = list(map(str, words))
    if os.name == "nt":
        return subprocess.list2cmdline(texts)
    return shlex.join(texts)


def use_in_python(metric: Path) -> list[str]:
    """Two lines of code that use a metric file, in Rich's markup."""
    name = json.dumps(str(metric), ensure_ascii=False)
    return [
        "    from conemetric import load_metric",
        escape(f"    Z = load_metric({name}).transform(X)  # Euclidean distance in Z = learned"),
    ]


def filled_grid(title: str, columns: dict[str, str], rows: Iterable[dict[str, Any]]) -> Table:
    """A table for the screen, by heading and template of each column; a cell is empty where a row
    lacks the value, and a dash where that is None.
    """

    def cell(row, template):
        try:
            return template.format(**row)
        except KeyError:
            return ""
        except TypeError:  # None has no digits to format
            return "-"

    cells = []
    for row in rows:
        cells.append([cell(row, template) for template in columns.values()])
    return grid(title, columns, cells)


def promise_values(promise: "ThresholdPromise") -> dict[str, Any]:
    """The promise of a threshold, for JSON and for the screen."""
    return {**asdict(promise), "bound": promise.bound}


def in_words(certificate: "Certificate") -> str:
    """A certificate in a sentence that a person can act on."""
    gap = certificate.relative_gap
    if not gap > 0:
        return f"gap {gap:.1e} ({certificate.status})"
    proven = f"proven within {gap:.2g} (relative) of the best possible objective"
    if certificate.violation > 0:
        proven += f", constraints missed by {certificate.violation:.1e}"
    return f"{proven} ({certificate.status})"
