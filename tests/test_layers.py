"""Imports go one way: each layer uses only those before it in this list."""

import ast
from pathlib import Path

import pytest

import conemetric

SOURCE = Path(conemetric.__file__).parent
LAYERS = [
    "warn",
    "extras",
    "arrays",
    "compiled",
    "sparse",
    "weights",
    "operators",
    "neighbours",
    "constraints",
    "partitions",
    "judgements",
    "spectral",
    "problems",
    "solvers",
    "semidefinite",
    "evaluation",
    "estimators",
    "datasets",
    "persistence",
    "export",
    "workflow",
    "plotting",
    "report",
    "cli",
    "__main__",
]
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def layer_of(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    return LAYERS.index(part)


def imported_layers(path):
    package = ("conemetric", *path.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parts = [
                *(package[: len(package) - node.level + 1] if node.level else ()),
                *(node.module or "").split("."),
            ]
            names = (
                [[*parts, alias.name] for alias in node.names]
                if parts[-1] in ("conemetric", "")
                else [parts]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for name in names:
            name = [part for part in name if part]
            if name[0] == "conemetric" and len(name) > 1 and name[1] in LAYERS:
                yield LAYERS.index(name[1]), name[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_layers_import_only_what_stands_above(path):
    own = layer_of(path)
    for index, name in imported_layers(path):
        assert index <= own, (
            f"{path.name} (layer {LAYERS[own]}) imports {name}, which stands below it"
        )


def test_every_module_has_a_layer():
    assert {layer_of(path) for path in FILES} <= set(range(len(LAYERS)))


def test_one_place_says_how_loops_are_compiled_and_solvers_do_not_print():
    for path in FILES:
        nodes = ast.walk(ast.parse(path.read_text()))
        calls = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        if layer_of(path) <= LAYERS.index("solvers"):
            assert "print" not in calls, path
        if path.name != "compiled.py":
            assert "njit" not in path.read_text(), path
