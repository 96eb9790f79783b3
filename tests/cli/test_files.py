"""Folders that commands write to: one command at a time, and none left behind empty."""

import os
import subprocess
import sys

import numpy as np
import pytest

from conemetric.cli import files

COMMANDS = {  # by name: arguments after the data, and what does the work
    "learn": (["--label", "kind", "--method", "frob"], "conemetric.studies.run_study"),
    "compare": (["--label", "kind", "--method", "frob"], "conemetric.studies.run_study"),
    "compress": (["--ignore", "kind"], "conemetric.cli.compressing._split"),
    "adapt": ([], "conemetric.studies.adapting.adapt"),
}


@pytest.fixture(params=COMMANDS)
def command(request, csv, tmp_path, monkeypatch):
    """(arguments, ``work(function)``: what to do in the place of the work)."""
    arguments, work = COMMANDS[request.param]
    data = csv
    if request.param == "adapt":
        data = tmp_path / "collection.npz"
        points = np.random.default_rng(0).normal(size=(20, 4))
        relevance = np.column_stack([np.arange(20)] * 2)
        np.savez(data, queries=points, documents=points, relevance=relevance)
    return [request.param, data, *arguments], lambda does: monkeypatch.setattr(work, does)


def raising(error):
    def work(*_, **__):
        raise error

    return work


@pytest.mark.cases(6)
@pytest.mark.parametrize("error", [ValueError("no"), RuntimeError("no"), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["out", "some/where/out"])
def test_a_command_that_fails_leaves_no_empty_folder(run, command, error, place, tmp_path):
    arguments, work = command
    work(raising(error))
    before = sorted(tmp_path.iterdir())
    assert run(*arguments, "--out", tmp_path / place).code != 0
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_was_there_stays(run, command, tmp_path):
    arguments, work = command
    (tmp_path / "out").mkdir()
    work(raising(ValueError("no")))
    assert run(*arguments, "--out", tmp_path / "out").code == 2
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.cases(6)
@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_folder_another_command_writes_to_is_refused(run, command, more, tmp_path):
    arguments, work = command
    work(raising(AssertionError("there was work")))
    (tmp_path / "out").mkdir()
    handle = files._lock(tmp_path / "out")
    refused = run(*arguments, "--out", tmp_path / "out", *more)
    assert refused.code == 2 and "another conemetric is writing to" in refused.err
    os.close(handle)
    assert "there was work" in run(*arguments, "--out", tmp_path / "out", *more).err


def test_without_a_choice_the_next_free_folder_is_taken(run, command, tmp_path, monkeypatch):
    arguments, work = command
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conemetric-out").mkdir()
    seen = []

    def look(*_, **__):
        seen.extend(sorted(path.name for path in tmp_path.glob("conemetric-out*")))
        raise ValueError("no")

    work(look)
    handle = files._lock(tmp_path / "conemetric-out")
    run(*arguments)
    os.close(handle)
    assert seen == ["conemetric-out", "conemetric-out-2"]


@pytest.mark.slow
def test_of_two_commands_at_once_one_succeeds(csv, tmp_path):
    options = ["--label", "kind", "--method", "frob", "--no-decision"]
    arguments = ["learn", csv, *options, "--out", tmp_path / "two"]
    call = [sys.executable, "-m", "conemetric", *map(str, arguments)]
    both = [
        subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2]
    refusal = next(err for err, one in zip(said, both, strict=True) if one.returncode == 2)
    assert "another conemetric is writing" in refusal or "exists already" in refusal
    assert len(list((tmp_path / "two").iterdir())) == 4


@pytest.mark.cases(2)
@pytest.mark.parametrize("module", ["typer", "numpy", "sklearn", "polars", "conemetric.cli"])
def test_ctrl_c_while_importing_is_quiet(module, tmp_path):
    file = tmp_path / "metric.safetensors"
    file.touch()
    arguments = ["conemetric", "embed", str(file), "--metric", str(file), "--out", "nothing.csv"]
    code = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv = {arguments!r}
from conemetric.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
