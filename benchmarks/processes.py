"""Measurements in processes of their own: each with its threads, its memory and its library.

Run as a module, this is the other end: it calls the function that it is told to call.
"""

import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from .missing import one_sentence

ROOT = Path(__file__).parents[1]


def in_own_process(function, *arguments, tree=None, environment=None, limit=None):
    """What ``function(*arguments)`` returns when a new process calls it.

    Arguments and result travel as JSON; what the function prints is shown.

    Parameters
    ----------
    function : function of a module that can be imported
    tree : str, default=None
        Folder that holds the version of the library to measure; None for that of this process.
    environment : mapping of str to str or None, default=None
        Variables of the environment to set, or, where None, to take away.
    limit : float, default=None
        Seconds after which the process is ended, and ``subprocess.TimeoutExpired`` raised.
    """
    folders = [tree, str(ROOT), os.environ.get("PYTHONPATH")]
    changes = {
        "PYTHONPATH": os.pathsep.join(folder for folder in folders if folder),
        **(environment or {}),
    }
    variables = {**os.environ, **changes}
    variables = {name: value for name, value in variables.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", __name__, function.__module__, function.__qualname__]
        command += [json.dumps(arguments), str(answer)]
        done = subprocess.run(command, env=variables, timeout=limit)
        if done.returncode != 0:
            raise SystemExit(done.returncode)  # the process has said why
        return json.loads(answer.read_text())


def threads(n):
    """The environment of a process with so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
    return dict.fromkeys(names, str(n))


@contextlib.contextmanager
def busy_processes(n):
    """A context in which so many other processes keep cores busy."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def _answer(module, name, arguments, path):
    function = getattr(importlib.import_module(module), name)
    with one_sentence(module.rpartition(".")[2]):
        result = function(*json.loads(arguments))
    Path(path).write_text(json.dumps(result))


if __name__ == "__main__":
    _answer(*sys.argv[1:])
