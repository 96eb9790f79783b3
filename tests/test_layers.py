"""Imports follow the table of layers in docs/design.md."""

import ast
import re
from pathlib import Path

import conemetric

SOURCE = Path(conemetric.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"
LAYER = {
    room: int(layer)
    for layer, room in re.findall(r"^\| (\d+) \| `(\w+)/`", DESIGN.read_text(), re.M)
}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


def room_of(path):
    return path.relative_to(SOURCE).parts[0]


def imported_rooms(path):
    package = ("conemetric", *path.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else ()
            parts = [*parent, *(node.module or "").split(".")]
            names = [[*parts, alias.name] for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        else:
            continue
        for name in names:
            name = [part for part in name if part]
            if name[0] == "conemetric" and name[1] in LAYER:
                yield name[1]


def test_at_most_ten_layers_and_every_room_in_one():
    assert set(LAYER) == {room_of(path) for path in FILES}
    assert set(LAYER.values()) == set(range(1, max(LAYER.values()) + 1))
    assert max(LAYER.values()) <= 10


def test_rooms_import_only_from_lower_layers():
    for path in FILES:
        own = room_of(path)
        upward = {
            room for room in imported_rooms(path) if room != own and LAYER[room] >= LAYER[own]
        }
        assert not upward, f"{path.relative_to(SOURCE)} imports {upward}"


def test_one_module_compiles_loops_and_solvers_do_not_print():
    for path in FILES:
        nodes = ast.walk(ast.parse(path.read_text()))
        calls = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        if LAYER[room_of(path)] <= LAYER["solvers"]:
            assert "print" not in calls, path
        if path.name != "compiled.py":
            assert "njit" not in path.read_text(), path
