"""The start is light: names and commands are loaded when they are used."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import typer

import conemetric
from conemetric.cli import exporting
from conemetric.cli.app import COMMANDS, app
from conemetric.cli.invocation import ProgressLine
from conemetric.cli.learn import METHODS
from conemetric.cli.options import LANGUAGE
from conemetric.export import hybrid
from conemetric.ranking.lexical import LANGUAGES

SYSTEMS = tuple(hybrid.SYSTEMS)
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
    script = (
        f"import sys\nsys.argv = ['conemetric', '--help']\ntry:\n    exec({code!r})\n"
        f"except SystemExit:\n    pass\nprint(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


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


NAMES = [command.__name__ for command in COMMANDS]
WRONG = {"-h": "Usage", "--nonsense": "No such option"}
WRITING = sorted({*ARGUMENTS} - {"compare", "inspect"})
# one after the other in one process, which has nothing heavy at first
CALLS = """
import contextlib, io, json, os, sys
from conemetric.__main__ import main

heavy, answers = set(sys.argv[1:]), []
for folder, arguments in json.load(sys.stdin):
    os.chdir(folder)
    sys.argv = ["conemetric", *arguments]
    before, text = set(sys.modules), io.StringIO()
    with (
        contextlib.redirect_stdout(text),
        contextlib.redirect_stderr(text),
        contextlib.suppress(SystemExit),
    ):
        main()
    answers.append([sorted(heavy & (set(sys.modules) - before)), text.getvalue()])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By command and case: the heavy modules that it imports, what it prints, and its folder."""
    calls = {(name, wrong): [name, wrong] for name in NAMES for wrong in WRONG}
    for name, cases in ARGUMENTS.items():
        calls |= {(name, case): [name, *arguments] for case, arguments in enumerate(cases)}
    folders = {}
    for (name, case), arguments in calls.items():
        folders[name, case] = folder = tmp_path_factory.mktemp("call")
        (folder / "there").touch()
        calls[name, case] = [argument.format("there") for argument in arguments]
        if case == 0 and name in FOLDERS:
            (folder / "taken").mkdir()
            (folder / "taken" / FOLDERS[name]).touch()
            calls[name, case] += ["--out", "taken"]
        elif case == 0:
            (folder / "taken").touch()
    del calls["compare", 0], calls["inspect", 0]  # they write nothing to refuse
    given = json.dumps([(str(folders[key]), arguments) for key, arguments in calls.items()])
    command = [sys.executable, "-c", CALLS, *HEAVY]
    done = subprocess.run(command, input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = zip(calls, json.loads(done.stdout), strict=True)
    return {key: (*answer, folders[key]) for key, answer in found}


@pytest.mark.parametrize("command", NAMES)
@pytest.mark.parametrize("wrong", WRONG)
def test_help_and_wrong_options_import_nothing_heavy(answers, command, wrong):
    imported, printed, _ = answers[command, wrong]
    assert imported == [] and WRONG[wrong] in printed


@pytest.mark.parametrize("command", ARGUMENTS)
@pytest.mark.parametrize("case", [1, 2])
def test_missing_files_are_refused_before_anything_heavy(answers, command, case):
    imported, printed, folder = answers[command, case]
    assert imported == [] and re.search(r"there is no ([a-z ]+ )?file 'none\.", printed)
    assert [path.name for path in folder.iterdir()] == ["there"]


@pytest.mark.parametrize("command", WRITING)
def test_existing_output_is_refused_before_anything_heavy(answers, command):
    imported, printed, _ = answers[command, 0]
    assert imported == [] and "exists already" in printed


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
        {
            "kind": "solve",
            "iteration": 3,
            "relative_gap": 0.02,
            "candidate": "FrobMetric (identity prior)",
        },
    ):
        assert not line({**event})
    assert [values["description"] for values in bar.shown] == [
        "frob: learning",
        "frob: learning: finding neighbours",
        "compiling, once",
        "frob: learning",
        "frob: learning, FrobMetric (identity prior)",
    ]
    assert bar.shown[1]["completed"] == 0.5
    assert bar.shown[-1]["note"] == "iteration 3, certified gap 2.0e-02"
    shares = []
    for number, gap in enumerate((np.inf, 10.0, 0.1, 0.01, 0.001)):
        line({"kind": "solve", "iteration": number, "relative_gap": gap, "tol": 0.01})
        shares.append(bar.shown[-1]["completed"])
    np.testing.assert_allclose(shares, [0, 0, 2 / 3, 1, 1], atol=1e-12)


@pytest.mark.parametrize(
    ("option", "begun", "expected"),
    [
        ("method", "l", ["lmnn-eig"]),
        ("method", "", list(METHODS)),
        ("target", "c", ["classes", "continuous"]),
        ("scale", "s", ["standard"]),
    ],
)
def test_the_shell_completes_choices(option, begun, expected):
    learn = typer.main.get_command(app).commands["learn"]
    (parameter,) = (each for each in learn.params if each.name == option)
    found = parameter.shell_complete(typer.Context(learn), begun)
    assert [item.value for item in found] == expected
