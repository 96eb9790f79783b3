"""Imports follow the table of layers in docs/design.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import conemetric

SOURCE = Path(conemetric.__file__).parent
DESIGN = Path(__file__).parents[1] / "docs" / "design.md"
ROOMS_WITHIN = ("engine/operators", "cli/reading")  # rooms of their own within a room


def layers_of_the_table() -> dict[str, int]:
    """Layer by room; ``papers/NAME`` stands for every room of papers."""
    rows = re.findall(r"^\| (\d+) \| `([^`]+?)/?` \|", DESIGN.read_text(), re.M)
    return {room: int(layer) for layer, room in rows}


LAYER = layers_of_the_table()
FILES = sorted(
    path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or not path.name.startswith("__")
)


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module, from its parts below the package: ``engine``, ``papers/numax``."""
    if parts[0] == "papers" and len(parts) > 1:
        return f"papers/{parts[1]}"
    if "/".join(parts[:2]) in ROOMS_WITHIN:
        return "/".join(parts[:2])
    is_file = (SOURCE / parts[0]).with_suffix(".py").exists()
    return f"{parts[0]}.py" if is_file else parts[0]


def room_of_file(path: Path) -> str:
    return room_of(path.relative_to(SOURCE).with_suffix("").parts)


def layer_of(room: str) -> int:
    return LAYER["papers/NAME" if room.startswith("papers/") else room]


parsed = cache(ast.parse)  # by the text of a file, which several tests walk through


def imported_names(path: Path) -> Iterator[list[str]]:
    """The parts of every name that a file imports, relative imports resolved."""
    package = ("conemetric", *path.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(parsed(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else ()
            module = node.module.split(".") if node.module else []
            yield from ([*parent, *module, alias.name] for alias in node.names)


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports from."""
    rooms = set()
    for name in imported_names(path):
        is_a_room = len(name) > 1 and (SOURCE / name[1]).is_dir()
        is_a_file = len(name) > 1 and (SOURCE / f"{name[1]}.py").exists()
        if name[0] == "conemetric" and (is_a_room or is_a_file):
            rooms.add(room_of(tuple(name[1:])))
    return rooms


def test_every_room_is_in_one_layer():
    rooms = {room_of_file(path) for path in FILES} - {"papers", "papers/__init__"}
    in_the_table = {"papers/NAME" if room.startswith("papers/") else room for room in rooms}
    assert set(LAYER) == in_the_table
    assert set(LAYER.values()) == set(range(1, max(LAYER.values()) + 1))


def test_rooms_import_only_from_lower_layers():
    for path in FILES:
        own = room_of_file(path)
        if own in ("papers", "papers/__init__"):
            continue
        others = imported_rooms(path) - {own}
        upward = {room for room in others if layer_of(room) >= layer_of(own)}
        assert not upward, f"{path.relative_to(SOURCE)} imports {upward}"


def test_rooms_of_papers_do_not_import_each_other():
    for path in sorted((SOURCE / "papers").rglob("*.py")):
        others = imported_rooms(path) - {room_of_file(path)}
        papers = {room for room in others if room.startswith("papers")}
        assert not papers, f"{path.relative_to(SOURCE)} imports {papers}"


def test_what_reads_files_knows_no_command():
    for path in sorted((SOURCE / "cli" / "reading").rglob("*.py")):
        assert "cli" not in imported_rooms(path), path.relative_to(SOURCE)
        imports_typer = any(name[0] == "typer" for name in imported_names(path))
        assert not imports_typer, path.relative_to(SOURCE)


def test_the_rules_see_what_they_forbid(tmp_path, monkeypatch):
    """A file that breaks a rule is found, whichever way it writes the import."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    for folder in ("papers/one", "papers/two", "cli/reading"):
        (tmp_path / folder).mkdir(parents=True)
    path = tmp_path / "papers" / "one" / "program.py"
    for text in ("from ..two import x", "from conemetric.papers.two.y import x"):
        path.write_text(text)
        assert imported_rooms(path) == {"papers/two"}
    path = tmp_path / "cli" / "reading" / "tables.py"
    for text in ("from ..options import x", "from .. import options", "import conemetric.cli.app"):
        path.write_text(text)
        assert imported_rooms(path) == {"cli"}


def test_the_library_imports_no_benchmark():
    for path in SOURCE.rglob("*.py"):
        assert not any(name[0] == "benchmarks" for name in imported_names(path)), path


def test_one_module_compiles_loops_and_solvers_do_not_print():
    for path in FILES:
        nodes = ast.walk(parsed(path.read_text()))
        calls = {
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        text, room = path.read_text(), room_of_file(path)
        is_solver = "def steps(" in text
        if is_solver or (room in LAYER and LAYER[room] <= LAYER["engine"]):
            assert "print" not in calls, path
        if path.name != "compiled.py":
            assert "njit" not in text, path
