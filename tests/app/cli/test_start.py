"""The start is light: names and commands are loaded when they are used."""

import re
import subprocess
import sys

import pytest

import conemetric
from conemetric.app.cli import exporting
from conemetric.app.cli.app import COMMANDS
from conemetric.app.cli.invocation import ProgressLine
from conemetric.app.cli.options import LANGUAGE
from conemetric.export import hybrid
from conemetric.ranking.lexical import LANGUAGES

SYSTEMS = tuple(hybrid.SYSTEMS)
HEAVY = ("numpy", "scipy", "sklearn", "numba", "polars", "matplotlib", "jinja2", "torch")


def run_alone(code, *arguments, cwd=None):
    """The heavy modules that this code imports in a process of its own, and what it prints."""
    script = (
        f"import sys\nsys.argv = {['conemetric', *arguments]!r}\ntry:\n    exec({code!r})\n"
        f"except SystemExit:\n    pass\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1], done.stdout + done.stderr


MAIN = "from conemetric.__main__ import main; main()"


@pytest.mark.parametrize("code", ["import conemetric", "import conemetric; dir(conemetric)", MAIN])
def test_the_start_imports_nothing_heavy(code):
    assert run_alone(code, "--help")[0] == "[]"


# by command: arguments with a file that is there ({}), and those with one that is not
ARGUMENTS = {
    "learn": ([], ["none.csv"], ["{}", "--labels", "none.csv"]),
    "compare": ([], ["none.csv"], ["{}", "--pairs", "none.csv"]),
    "compress": ([], ["none.csv"], ["{}", "--labels", "none.csv"]),
    "adapt": ([], ["none.npz"], ["--queries", "{}", "--documents", "none.npy"]),
    "embed": (
        ["{}", "--metric", "{}", "--out", "taken"],
        ["none.csv", "--metric", "{}", "--out", "new"],
        ["{}", "--metric", "none.safetensors", "--out", "new"],
    ),
    "neighbors": (
        ["{}", "--metric", "{}", "--out", "taken"],
        ["none.csv", "--metric", "{}"],
        ["{}", "--metric", "{}", "--against", "none.csv"],
    ),
    "predict": (
        ["{}", "--decision", "{}", "--out", "taken"],
        ["none.csv", "--decision", "{}"],
        ["{}", "--decision", "none.safetensors"],
    ),
    "verify": (
        ["{}", "--data", "{}", "--metric", "{}"],
        ["none.csv", "--data", "{}", "--metric", "{}"],
        ["{}", "--data", "{}", "--metric", "none.safetensors"],
    ),
    "export": (
        ["{}", "--to", "sql", "--out", "taken"],
        ["none.safetensors", "--to", "sql", "--out", "new"],
        ["none.json", "--to", "json", "--out", "new"],
    ),
    "inspect": ([], ["none.safetensors"], ["none.csv"]),
}
FOLDERS = {
    "learn": "report.html",
    "compress": "table.csv",
    "adapt": "table.csv",
    "verify": "roc.csv",
}


@pytest.mark.parametrize("command", [command.__name__ for command in COMMANDS])
@pytest.mark.parametrize(("wrong", "answer"), [("-h", "Usage"), ("--nonsense", "No such option")])
def test_help_and_wrong_options_import_nothing_heavy(command, wrong, answer):
    imported, printed = run_alone(MAIN, command, wrong)
    assert imported == "[]" and answer in printed


@pytest.mark.parametrize("command", ARGUMENTS)
@pytest.mark.parametrize("case", [1, 2])
def test_missing_files_are_refused_before_anything_heavy(command, case, tmp_path):
    (tmp_path / "there").touch()
    arguments = [argument.format("there") for argument in ARGUMENTS[command][case]]
    imported, printed = run_alone(MAIN, command, *arguments, cwd=tmp_path)
    assert imported == "[]" and re.search(r"there is no ([a-z ]+ )?file 'none\.", printed)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("command", sorted({*ARGUMENTS} - {"compare", "inspect"}))
def test_existing_output_is_refused_before_anything_heavy(command, tmp_path):
    (tmp_path / "there").touch()
    arguments = [argument.format("there") for argument in ARGUMENTS[command][0]]
    taken = tmp_path / "taken"
    if command in FOLDERS:
        taken.mkdir()
        taken, arguments = taken / FOLDERS[command], [*arguments, "--out", "taken"]
    taken.touch()
    imported, printed = run_alone(MAIN, command, *arguments, cwd=tmp_path)
    assert imported == "[]" and "exists already" in printed


def test_every_public_name_is_there():
    assert set(conemetric.__all__) <= set(dir(conemetric))
    for name in conemetric.__all__:
        assert getattr(conemetric, name).__name__ == name
    with pytest.raises(AttributeError, match="'nothing'"):
        conemetric.nothing


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_every_command_with_its_summary(run, command):
    (line,) = [
        line
        for line in run("--help").out.splitlines()
        if line.strip("│ ").startswith(f"{command.__name__} ")
    ]
    assert command.__doc__.split()[0] in line


@pytest.mark.parametrize("names", [LANGUAGES, SYSTEMS])
def test_help_names_every_choice_of_the_library(names):
    offered = {LANGUAGES: LANGUAGE, SYSTEMS: ", ".join(exporting.SYSTEMS)}[names]
    assert offered.rstrip(".").endswith(", ".join(names))


@pytest.mark.parametrize("name", ["lern", "learn2", "x"])
def test_unknown_commands_are_refused(run, name):
    result = run(name)
    assert result.code == 2 and name in result.err


class Bar:
    """What a progress line asks of Rich."""

    def __init__(self):
        self.tasks, self.shown = [type("Task", (), {"total": None})()], []

    def add_task(self, *_, **__):
        return 0

    def update(self, line, **values):
        self.shown.append(values)


def test_the_line_shows_stage_gap_share_and_compilation():
    bar = Bar()
    line = ProgressLine(bar)
    for event in (
        {"kind": "stage", "stage": "learning", "method": "frob"},
        {"kind": "search", "done": 0.5},
        {"kind": "compile", "begins": True},
        {"kind": "compile", "begins": False},
        {"kind": "solve", "iteration": 3, "relative_gap": 0.02, "candidate": "prior"},
    ):
        assert not line({**event})
    assert [values["description"] for values in bar.shown] == [
        "frob: learning",
        "frob: learning: finding neighbours",
        "compiling, once",
        "frob: learning",
        "frob: learning, prior",
    ]
    assert bar.shown[1]["completed"] == 0.5
    assert bar.shown[-1]["note"] == "iteration 3, certified gap 2.0e-02"
