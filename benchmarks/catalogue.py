"""What benchmarks there are. Each one describes itself in its docstring, which is read here.

A benchmark is a module in one of the four folders, with a function ``main(arguments)``. Its name is
that of its file; files whose name begins with ``_`` are no benchmarks. The docstring begins with one
sentence that says what is measured, shows the command ``python -m benchmarks NAME``, and ends with

    Data: what is loaded or simulated
    Minutes: how long it takes with its defaults, and where that was seen
    Needs: modules and machines that the tests do not need, separated by commas (often left out)
"""

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
FOLDERS = ("speed", "gpu", "quality", "scale")
FIELD = re.compile(r"^(Data|Minutes|Needs): (.+(?:\n    .+)*)", re.MULTILINE)


class Benchmark(NamedTuple):
    """What the docstring of a benchmark says."""

    name: str
    folder: str
    path: Path
    sentence: str
    data: str
    minutes: str
    needs: tuple[str, ...]

    @property
    def module(self):
        return f"benchmarks.{self.folder}.{self.name}"

    def missing_modules(self):
        """Modules it needs that are not installed. What is no name of a module is a machine."""
        modules = [need for need in self.needs if need.isidentifier()]
        return [module for module in modules if find_spec(module) is None]


def find_benchmarks():
    """Every benchmark by its name."""
    found: dict[str, Benchmark] = {}
    for folder in FOLDERS:
        for path in sorted((HERE / folder).glob("[!_]*.py")):
            benchmark = described(path)
            if benchmark.name in found:
                raise ValueError(
                    f"{path} and {found[benchmark.name].path} have the same name; rename one."
                )
            found[benchmark.name] = benchmark
    return found


def described(path):
    """The `Benchmark` in a file."""
    name = path.stem
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    sentence = _on_one_line(text.partition("\n\n")[0])
    fields = {key: _on_one_line(value) for key, value in FIELD.findall(text)}
    _demand(path, sentence.endswith("."), "must begin with a sentence that ends in a full stop")
    command = f"python -m benchmarks {name}"
    _demand(path, command in text, f"must show the command '{command}'")
    _demand(path, "Data" in fields, "must have a line 'Data: ...'")
    minutes = fields.get("Minutes", "")
    begins_with_number = re.match(r"(less than )?\d", minutes) is not None
    _demand(path, begins_with_number, "must have a line 'Minutes: ...' that begins with a number")
    needs = tuple(fields["Needs"].split(", ")) if "Needs" in fields else ()
    return Benchmark(
        name=name,
        folder=path.parent.name,
        path=path,
        sentence=sentence,
        data=fields["Data"],
        minutes=minutes,
        needs=needs,
    )


def _demand(path, fulfilled, what):
    if not fulfilled:
        raise ValueError(f"The docstring of {path} {what}.")


def _on_one_line(text):
    return " ".join(text.split())
