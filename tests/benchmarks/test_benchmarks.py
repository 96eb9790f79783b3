"""Benchmarks import what there is, pages name benchmarks that exist, and the library
imports none of them.
"""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import conemetric
from benchmarks.papers.tables import EXPERIMENTS

ROOT = Path(__file__).parents[1]
SOURCE = Path(conemetric.__file__).parent
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def imports(path):
    """(module, names taken from it) for every import that is not relative."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_script_imports_is_there(script):
    found = list(imports(script))
    if ("torch", []) in found:
        pytest.importorskip("torch")
    for module, names in found:
        module = re.sub(r"^papers\b", "benchmarks.papers", module)
        if module.startswith(("conemetric", "benchmarks")):
            there = import_module(module)
            for name in names:
                assert hasattr(there, name) or import_module(f"{module}.{name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_on_a_page_exist(page):
    text = page.read_text()
    for name in re.findall(r"python -m benchmarks\.papers (\w[\w-]*)", text):
        assert name in EXPERIMENTS
    for script in re.findall(r"benchmarks/[\w/]+\.py", text):
        assert (ROOT / script).is_file(), script


def test_the_library_imports_no_benchmark():
    for path in SOURCE.rglob("*.py"):
        for module, _ in imports(path):
            assert module.partition(".")[0] not in ("benchmarks", "papers"), path


def test_a_fit_is_timed_with_its_comparisons():
    """The benchmark of retrieval replaces a method of the library, whose arguments may change."""
    command = "benchmarks/gpu_retrieval.py --device cpu --sizes small --estimators metric --C 1"
    done = subprocess.run(
        [sys.executable, *command.split()], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.search(r"14,000 comparisons, .* s comparisons; \d+ iterations", done.stdout)
