"""The deployment example: what it starts exists, and its parts fit together."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
distributed = pytest.importorskip("distributed")

FOLDER = Path(__file__).parents[1] / "deployment"


def services():
    return yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


@pytest.mark.parametrize("name", ["scheduler", "worker"])
def test_services_are_built_here_and_their_commands_are_known_to_dask(name):
    service = services()[name]
    build = service["build"]
    context = (FOLDER / build["context"]).resolve()
    assert (context / build["dockerfile"]).exists()
    assert (context / "pyproject.toml").exists()
    program, command, *arguments = service["command"].split()
    assert (program, command) == ("dask", name)
    module = __import__(f"distributed.cli.dask_{name}", fromlist=["main"])
    known = {option for each in module.main.params for option in (*each.opts, *each.secondary_opts)}
    assert {each for each in arguments if each.startswith("--")} <= known


def test_workers_find_the_scheduler_and_so_do_clients():
    found = services()
    address = re.search(r"tcp://(\w+):(\d+)", found["worker"]["command"])
    assert address[1] in found["worker"]["depends_on"]
    assert f"--port {address[2]}" in found["scheduler"]["command"]
    assert f"{address[2]}:{address[2]}" in found["scheduler"]["ports"]


def test_a_worker_keeps_within_its_container():
    worker = services()["worker"]
    own = re.search(r"--memory-limit (\d+)GiB", worker["command"])[1]
    assert int(own) <= int(worker["deploy"]["resources"]["limits"]["memory"].rstrip("g"))
