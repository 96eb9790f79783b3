"""Benchmarks describe themselves, start, say in one sentence what they miss, and import what there
is; pages name commands that exist; the library imports no benchmark.
"""

import ast
import io
import re
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from cases import each

import benchmarks
import conemetric
from benchmarks.__main__ import main, print_list
from benchmarks.catalogue import described, find_benchmarks
from benchmarks.command import command_parser, tree
from benchmarks.data import load
from benchmarks.measuring import exponent
from benchmarks.output import Records
from benchmarks.papers.tables import EXPERIMENTS
from benchmarks.processes import in_own_process

ROOT = Path(benchmarks.__file__).parents[1]
SOURCE = Path(conemetric.__file__).parent
BENCHMARKS = find_benchmarks()
FILES = sorted((ROOT / "benchmarks").rglob("[!_]*.py"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(benchmark.path for benchmark in BENCHMARKS.values()),
]
# a command ends with its quotation mark, its comment, its paragraph, or where the next one begins
COMMAND = re.compile(r"python -m benchmarks (\w+)((?:(?!`|#|\n\n|python -m).)*)", re.DOTALL)
OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*")


# ---- every benchmark


@cache
def help_of(name):
    """What a benchmark prints for ``--help``; None where a module is missing that it needs."""
    benchmark = BENCHMARKS[name]
    if benchmark.missing_modules():
        return None
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit) as ended:
        import_module(benchmark.module).main(["--help"])
    assert ended.value.code == 0
    return printed.getvalue()


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_starts(name):
    printed = help_of(name)
    if printed is None:
        pytest.skip(f"needs {BENCHMARKS[name].missing_modules()}")
    assert f"usage: python -m benchmarks {name} " in printed


def test_the_list_has_every_benchmark(capsys):
    print_list(BENCHMARKS)
    printed = " ".join(capsys.readouterr().out.split())
    for benchmark in BENCHMARKS.values():
        assert f" {benchmark.name} {benchmark.sentence} Data: {benchmark.data}" in printed


GOOD = '''"""Seconds of a thing.

    python -m benchmarks thing

Data: simulated, and
    iris
Minutes: 2 on one core
Needs: no_such_module, a GPU
"""
'''


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("a thing.", "a thing", "full stop"),
        ("benchmarks thing", "benchmarks other", "python -m benchmarks thing"),
        ("Data: simulated", "Rows: simulated", "Data: "),
        ("Minutes: 2", "Minutes: some", "begins with a number"),
    ],
)
def test_a_docstring_that_lacks_something_is_refused(tmp_path, old, new, fault):
    path = tmp_path / "thing.py"
    path.write_text(GOOD)
    found = described(path)
    assert (found.sentence, found.data) == ("Seconds of a thing.", "simulated, and iris")
    assert found.missing_modules() == ["no_such_module"]
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ValueError, match=fault) as error:
        described(path)
    assert "thing.py" in str(error.value)


# ---- what is missing is said in one sentence, before any work


def test_an_unknown_name_is_corrected():
    with pytest.raises(SystemExit, match=r"'small_fit'; did you mean 'small_fits'\?"):
        main(["small_fit"])


def test_missing_data_name_file_and_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CONEMETRIC_DATA", str(tmp_path))
    with pytest.raises(
        SystemExit, match=r"retrieval: ir_cranfield_minilm384\.npz .*CONEMETRIC_DATA"
    ):
        main(["retrieval", "--collections", "cranfield"])
    monkeypatch.delenv("CONEMETRIC_DATA")
    with pytest.raises(
        SystemExit, match=r"gpu_mvu: 'frey' .*CONEMETRIC_DATA is not set|gpu_mvu needs"
    ):
        main(["gpu_mvu", "--device", "cpu"])


@pytest.mark.turns(2)
def test_missing_data_are_named_by_a_process_of_its_own_too(capfd):
    with pytest.raises(SystemExit):
        in_own_process(load, "frey", environment={"CONEMETRIC_DATA": None})
    error = capfd.readouterr().err
    assert error.startswith("data: 'frey' is not on this machine")
    assert error.count("\n") == 1


def test_a_missing_module_is_named(monkeypatch):
    monkeypatch.setattr("benchmarks.catalogue.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="frobmetric_conic needs cvxpy, which this Python"):
        main(["frobmetric_conic"])


def test_a_missing_gpu_is_named(capsys, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        main(["gpu_retrieval"])
    assert "PyTorch finds no GPU for cuda; pass --device cpu" in capsys.readouterr().err


def test_a_peer_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["dml_eig_pydml", "--peer", "no-such-python"])
    assert "--peer no-such-python cannot import pyDML" in capsys.readouterr().err


def test_a_tree_is_a_folder_with_the_package(capsys):
    assert tree(f"now={SOURCE.parent}") == ("now", str(SOURCE.parent))
    parser = command_parser("", "benchmarks.speed.thing")
    parser.add_argument("--trees", type=tree)
    for given in (f"now={SOURCE}", str(SOURCE.parent)):
        with pytest.raises(SystemExit):
            parser.parse_args(["--trees", given])
        assert "pass NAME=FOLDER" in capsys.readouterr().err


# ---- what benchmarks share


def test_a_process_of_its_own_returns_what_the_function_returns():
    assert in_own_process(exponent, [1, 2, 4], [1, 4, 16]) == pytest.approx(2)


def test_records_are_read_where_they_were_left(tmp_path):
    file = Records(tmp_path / "records.jsonl")
    assert file.read() == []
    file.append({"a": 1}, {"a": 2})
    file.append({"a": 3})
    assert Records(file.path).read() == [{"a": 1}, {"a": 2}, {"a": 3}]


# ---- imports and pages


def imports(path):
    """(module, names taken from it) for every import, also those inside functions."""
    package = ("benchmarks", *path.relative_to(ROOT / "benchmarks").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            parent = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*parent, *([node.module] if node.module else [])])
            yield module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


@each("path", FILES)
def test_what_a_file_imports_is_there(path):
    found = list(imports(path))
    if ("torch", []) in found and find_spec("torch") is None:
        return
    for module, names in found:
        if module.startswith(("conemetric", "benchmarks")):
            there = import_module(module)
            for name in names:
                assert hasattr(there, name) or import_module(f"{module}.{name}")


@each("page", PAGES)
def test_commands_on_a_page_exist(page):
    text = page.read_text()
    for name in re.findall(r"python -m benchmarks\.papers (\w[\w-]*)", text):
        assert name in EXPERIMENTS
    for name, arguments in COMMAND.findall(text):
        assert name == "NAME" or name in BENCHMARKS
        if name != "NAME" and help_of(name) is not None:
            options = set(re.findall(r"^  (--[\w-]+)", help_of(name), re.MULTILINE))
            assert set(OPTION.findall(arguments)) <= options, name
    for script in re.findall(r"(?<![\w/])benchmarks/[\w/]+\.py", text):
        assert (ROOT / script).is_file(), script


@pytest.mark.turns(3)
def test_a_fit_is_timed_with_its_comparisons(capsys):
    """The benchmark of retrieval replaces a method of the library, whose arguments may change."""
    small = ["--device", "cpu", "--sizes", "small", "--estimators", "metric", "--C", "1"]
    main(["gpu_retrieval", *small])
    printed = capsys.readouterr().out
    assert re.search(r"14,000 comparisons, .* s comparisons; \d+ iterations", printed)
