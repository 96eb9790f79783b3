"""Wording of answers: tables for the screen, and the results of a fit."""

import json
import os
import shlex
import subprocess
from collections.abc import Iterable
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
    return [] if complete else [f"the first of {plural(n, 'row')}; all of them: --out FILE.csv"]


def grid(title: str, headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table for the screen: names in its first column, numbers in the others."""
    table = Table(title=escape(title) if title else None, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def written(out: Path, files: str) -> str:
    """A line that says which files were written where."""
    return f"written to {escape(str(out))}: {files}"


def command_line(*words: object) -> str:
    """A command that can be pasted into the shell of this system, whatever its words hold."""
    texts = [str(word) for word in words]
    return subprocess.list2cmdline(texts) if os.name == "nt" else shlex.join(texts)


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
        except (KeyError, TypeError) as error:
            return "" if isinstance(error, KeyError) else "-"

    cells = ([cell(row, template) for template in columns.values()] for row in rows)
    return grid(title, columns, cells)


def promise_values(promise: "ThresholdPromise") -> dict[str, Any]:
    """The promise of a threshold, for JSON and for the screen."""
    return {**asdict(promise), "bound": promise.bound}


def in_words(certificate: "Certificate") -> str:
    """A certificate in a sentence that a person can act on."""
    gap, violation = certificate.relative_gap, certificate.violation
    if not gap > 0:
        return f"gap {gap:.1e} ({certificate.status})"
    missed = f", constraints missed by {violation:.1e}" if violation > 0 else ""
    proven = f"proven within {gap:.2g} (relative) of the best possible objective"
    return f"{proven}{missed} ({certificate.status})"
