"""The conda recipe needs what pyproject.toml needs, and says the same about it."""

import tomllib
from pathlib import Path

import pytest

import conemetric

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
RECIPE = yaml.safe_load((ROOT / "deployment/conda/recipe.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_recipe_has_the_dependencies_of_the_library_and_its_command():
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    spaced = [line.replace(">=", " >=") for line in wanted]
    assert [line for line in RECIPE["requirements"]["run"] if "python " not in line] == spaced


def test_version_command_and_licence_agree():
    assert RECIPE["context"]["version"] == conemetric.__version__
    assert f">={RECIPE['context']['python_min']}" == PROJECT["requires-python"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    (command,) = RECIPE["build"]["python"]["entry_points"]
    assert command == f"conemetric = {PROJECT['scripts']['conemetric']}"
