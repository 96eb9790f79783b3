"""The start is light: names and commands are loaded when they are used."""

import subprocess
import sys

import pytest

import conemetric
from conemetric.app.cli.app import COMMANDS, load_command
from conemetric.app.cli.invocation import ProgressLine

HEAVY = ("numpy", "scipy", "sklearn", "numba", "polars", "matplotlib", "jinja2", "torch")


@pytest.mark.parametrize(
    "code",
    [
        "import conemetric",
        "import conemetric; dir(conemetric)",
        "from conemetric.__main__ import main; main()",
    ],
)
def test_the_start_imports_nothing_heavy(code):
    check = f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    script = (
        f"import sys\nsys.argv = ['conemetric', '--help']\ntry:\n    exec({code!r})\n"
        f"except SystemExit:\n    pass\n{check}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_public_name_is_there():
    assert set(conemetric.__all__) <= set(dir(conemetric))
    for name in conemetric.__all__:
        assert getattr(conemetric, name).__name__ == name
    with pytest.raises(AttributeError, match="'nothing'"):
        conemetric.nothing


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_the_command_says(run, name):
    summary = COMMANDS[name][1]
    assert " ".join(load_command(name).help.split()).startswith(summary)
    assert summary.split()[0] in run("--help").out


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
