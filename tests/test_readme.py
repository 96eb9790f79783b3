"""The README's commands need nothing but what they install, whatever else is there.

Every library that the command's ``pip install`` would not bring is hidden from a fresh
interpreter, so that a machine with PyTorch tests what a machine without it meets.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"^python -m pip install '?\.(?:\[([\w,]+)\])?'? && (.+)$", re.MULTILINE)
HIDING = """
import sys
from importlib.machinery import PathFinder

class Visible(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        hidden = name.partition(".")[0] in {hidden!r}
        return None if hidden else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Visible
"""


def readme_commands():
    """{what is run: extras that are installed for it}."""
    found = COMMAND.findall((ROOT / "README.md").read_text())
    return {command: set(filter(None, extras.split(","))) for extras, command in found}


def requirements(extras):
    """The distributions that ``pip install .[extras]`` brings, among those installed here."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project.get("optional-dependencies", {})
    lines = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    todo, brought = [(line, "") for line in lines], set()
    while todo:
        line, extra = todo.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name == "conemetric":
            todo += [(line, "") for extra in requirement.extras for line in optional[extra]]
            continue
        wanted = {(name, extra) for extra in ("", *requirement.extras)} - brought
        brought |= wanted
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # as the marker of another platform
            continue
        todo += [(line, extra) for _, extra in wanted for line in needs]
    return {name for name, _ in brought}


def run_without_the_rest(arguments, extras, folder, cwd):
    """Run Python with every top-level module hidden that ``extras`` do not bring."""
    allowed = requirements(extras) | {"conemetric", "pip", "setuptools"}
    modules = importlib.metadata.packages_distributions()
    hidden = {
        module
        for module, owners in modules.items()
        if not allowed & {canonicalize_name(owner) for owner in owners}
    }
    (folder / "sitecustomize.py").write_text(HIDING.replace("{hidden!r}", repr(hidden)))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plugins of hidden distributions
        "PYTEST_ADDOPTS": "",
    }
    result = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return hidden, result.stdout


def test_the_readme_holds_two_commands():
    assert len(readme_commands()) == 2
    assert "python -m pytest" in readme_commands()


in_ci = bool(os.environ.get("CI"))
runs_them_itself = pytest.mark.skipif(
    in_ci, reason="runs both commands, each in an environment that holds nothing else"
)


@runs_them_itself
@pytest.mark.skipif(find_spec("torch") is None, reason="nothing to hide: this run collects so")
def test_the_test_command_collects_without_torch_and_other_optional_libraries(tmp_path):
    extras = readme_commands()["python -m pytest"]
    hidden, output = run_without_the_rest(
        ["-m", "pytest", "--collect-only", "-p", "xdist", "-p", "no:cacheprovider"],
        extras,
        tmp_path,
        ROOT,
    )
    assert "test_readme.py" in output
    assert "torch" in hidden
    assert not {"numpy", "pytest", "cvxpy"} & hidden


@pytest.mark.turns(3)
@runs_them_itself
@pytest.mark.parametrize("command", [c for c in readme_commands() if c.startswith("conemetric")])
def test_the_first_command_runs_without_optional_libraries(command, tmp_path):
    code = "import sys; from conemetric.cli import main; main(sys.argv[1:])"
    cwd = tmp_path / "elsewhere"
    cwd.mkdir()
    arguments = ["-c", code, *command.split()[1:]]
    run_without_the_rest(arguments, readme_commands()[command], tmp_path, cwd)
    assert any(cwd.iterdir())
