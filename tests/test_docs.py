"""The pages name what exists, and their examples print what they show."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

import conemetric
from conemetric import FrobMetric, LearnedMetric, NuMax, QueryAdapter

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", conemetric.__all__)
def test_the_api_page_lists_every_public_name(name):
    assert f"   {name}\n" in (DOCS / "api.rst").read_text()


def test_every_command_is_listed():
    declared = pytest.importorskip("conemetric.cli.app").COMMANDS
    commands = [command.__name__ for command in declared]
    page = (DOCS / "command_line.md").read_text()
    (line,) = re.findall(r"`conemetric learn \| (.*?)`", (DOCS.parent / "README.md").read_text())
    assert {"learn", *line.split(" | ")} == set(commands)
    assert set(re.findall(r"^\| `conemetric (\w+)", page, re.MULTILINE)) == set(commands)


@pytest.mark.parametrize(
    "page, section",
    [
        ("index.md", ""),
        ("tutorial.md", ""),
        ("decisions.md", ""),
        ("install.md", "## Check it"),
        ("guide.md", "## Regression"),
    ],
)
def test_examples_print_what_the_page_shows(page, section, capsys, tmp_path, monkeypatch):
    """Every block of code that is followed by its output, up to the next section if one is named."""
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text()
    if section:
        text = section + re.split(r"^## ", text.partition(section)[2], flags=re.M)[0]
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert blocks
    names: dict = {}
    for code, output in blocks:
        exec(code, names)
        assert capsys.readouterr().out == output


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_code_of_the_guide_runs_from_top_to_bottom(tmp_path, monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.chdir(tmp_path)
    X, y = load_wine(return_X_y=True)
    pairs = np.column_stack([np.arange(177), np.arange(1, 178)])
    triplets = np.array([[i, i + 1, (i + 89) % 178] for i in range(88)])
    names = {
        **{"X": X, "y": y, "X_new": X[:5], "w": np.ones(178), "v": np.ones(88)},
        **{"P": pairs, "s": y[pairs[:, 0]] == y[pairs[:, 1]], "T": triplets},
        **{"X_train": X[::2], "y_train": y[::2], "X_test": X[1::2], "y_test": y[1::2]},
    }
    names["s"][::5] = False
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "guide.md").read_text(), re.DOTALL)
    for code in blocks:
        exec(code, names)
    assert len(names["Z"]) == 5


def test_the_example_of_the_page_on_retrieval_runs(capsys):
    """Numbers are not compared: the texts are those of the scikit-learn installed."""
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "retrieval.md").read_text(), re.DOTALL)
    (code,) = (block for block in blocks if "reference_pages" in block)
    exec(code, {})
    assert "converged" in capsys.readouterr().out


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("gallery/"):  # made by the build
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_no_line_of_prose_becomes_a_comment(page):
    assert not re.findall(r"^ *%.*", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "estimator",
    [FrobMetric(), NuMax(), QueryAdapter(), LearnedMetric(np.eye(2), np.zeros(2))],
    ids=lambda estimator: type(estimator).__name__,
)
def test_diagrams_link_to_the_page_of_the_class(estimator):
    assert f"/generated/conemetric.{type(estimator).__name__}.html" in estimator._repr_html_()


def test_one_version_everywhere():
    root = DOCS.parent
    citation = dict(
        re.findall(r"^(version|date-released): (\S+)$", (root / "CITATION.cff").read_text(), re.M)
    )
    assert citation["version"] == conemetric.__version__
    heading = f"## {conemetric.__version__} ({citation['date-released']})"
    assert heading in (root / "CHANGELOG.md").read_text()
