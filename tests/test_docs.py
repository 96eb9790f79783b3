"""The pages name what exists, their code runs and prints what they show, and their words are plain.

Every block of Python on a page is run, in the order of the page, unless the line above it says
``<!-- not run: REASON -->``. A block that is followed by a block of text must print that text.
"""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cases import each
from sklearn.datasets import load_wine

import conemetric
from conemetric import FrobMetric, LearnedMetric, NuMax, QueryAdapter

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
API = (DOCS / "api.rst").read_text()
# what an optional block of a page needs
NEEDS = {
    "ranking.md": ("bm25s", "snowballstemmer"),
    "pipelines.md": ("tqdm",),
    "tables.md": ("pandas",),
}
TESTED_ELSEWHERE = {"postgres.md"}  # tests/test_postgres_page.py

BLOCK = re.compile(
    r"(?P<left_out><!-- not run: [^>]+ -->\n)?"
    r"```python\n(?P<code>.*?)```"
    r"(?:\n\n```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
FENCED = re.compile(r"```.*?```", re.DOTALL)


def page_id(page):
    return str(page.relative_to(ROOT))


def blocks_of(page):
    return list(BLOCK.finditer(page.read_text()))


def has_code_to_run(page):
    runs = any(not block["left_out"] for block in blocks_of(page))
    return runs and page.name not in TESTED_ELSEWHERE


# ---- code


def names_for_pages():
    """Rows, labels, pairs and triplets under the names that pages give to the reader's own data."""
    X, y = load_wine(return_X_y=True)
    pairs = np.column_stack([np.arange(177), np.arange(1, 178)])
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    similar[::5] = False
    triplets = np.array([[i, i + 1, (i + 89) % 178] for i in range(88)])
    metric = FrobMetric().fit(X, y)
    same = np.where(similar, 1, -1)
    return {
        "X": X,
        "y": y,
        "X_train": X[::2],
        "y_train": y[::2],
        "X_test": X[1::2],
        "y_test": y[1::2],
        "X_new": X[:5],
        "w": np.ones(len(X)),
        "v": np.ones(len(triplets)),
        "P": pairs,
        "s": similar,
        "T": triplets,
        "metric": metric,
        "pairs": np.tile(X[pairs], (20, 1, 1)),
        "same": np.tile(same, 20),
        "pairs_of_points": X[pairs],
        "y_pairs": same,
        "triplets_of_points": X[triplets],
        "triplets_of_row_numbers": triplets,
        "scores": -metric.pair_distance(X[pairs]),
        "relevant": similar,
    }


@pytest.mark.cases(6)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", [*filter(has_code_to_run, PAGES)], ids=page_id)
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(
    page, capsys, tmp_path, monkeypatch
):
    for module in NEEDS.get(page.name, ()):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    names = names_for_pages()
    for block in blocks_of(page):
        if block["left_out"]:
            continue
        exec(block["code"], names)
        printed = capsys.readouterr().out
        if block["output"] is not None:
            assert printed == block["output"]


@each("page", PAGES)
def test_what_a_page_imports_is_public(page):
    for block in blocks_of(page):
        for module, names in re.findall(
            r"^from conemetric(\S*) import ([\w, ]+)", block["code"], re.MULTILINE
        ):
            for name in names.split(", "):
                entry = f"{module[1:]}.{name}" if module else name
                assert f"   {entry}\n" in API, f"{entry} is not on the API page"


# ---- names


def test_the_api_page_lists_every_public_name_once():
    entries = Counter(re.findall(r"^   ([\w.]+)$", API, re.MULTILINE))
    assert not set(conemetric.__all__) - set(entries)
    assert not [name for name, times in entries.items() if times > 1]


def test_every_command_is_listed():
    declared = pytest.importorskip("conemetric.cli.app").COMMANDS
    commands = [command.__name__ for command in declared]
    page = (DOCS / "command_line.md").read_text()
    (line,) = re.findall(r"`conemetric learn \| (.*?)`", (ROOT / "README.md").read_text())
    assert {"learn", *line.split(" | ")} == set(commands)
    assert set(re.findall(r"^\| `conemetric (\w+)", page, re.MULTILINE)) == set(commands)


@each("page", PAGES)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", FENCED.sub("", page.read_text())):
        if not target.startswith("gallery/"):  # made by the build
            assert (page.parent / target).exists(), target


def test_no_page_is_replaced_by_one_that_the_build_makes():
    """Sphinx writes its own page of these names over a page of the docs, without a word."""
    assert not {"search", "genindex", "py-modindex"} & {page.stem for page in DOCS.glob("*.*")}


def test_files_that_contributors_are_sent_to_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([\w.]+/[\w./]*)`", text))
    folders = (ROOT, ROOT / "src" / "conemetric", ROOT / "tests", ROOT / "benchmarks")
    missing = {
        path
        for path in named
        if "NAME" not in path and not any((folder / path).exists() for folder in folders)
    }
    assert len(named) > 40 and not missing, missing


@pytest.mark.parametrize(
    "estimator",
    [FrobMetric(), NuMax(), QueryAdapter(), LearnedMetric(np.eye(2), np.zeros(2))],
    ids=lambda estimator: type(estimator).__name__,
)
def test_diagrams_link_to_the_page_of_the_class(estimator):
    assert f"/generated/conemetric.{type(estimator).__name__}.html" in estimator._repr_html_()


def test_one_version_everywhere():
    citation = dict(
        re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    )
    assert citation["version"] == conemetric.__version__
    heading = f"## {conemetric.__version__} ({citation['date-released']})"
    assert heading in (ROOT / "CHANGELOG.md").read_text()


# ---- prose


@each("page", PAGES)
def test_no_line_of_prose_becomes_a_comment(page):
    assert not re.findall(r"^ *%.*", page.read_text(), re.MULTILINE)


# what pages do not say: what they say instead
PLAIN_WORDS = {
    r"plain (euclidean|distances?|metric)": "Euclidean distance",
    r"(words|dates),? and gaps|gaps,? and (words|dates)|ratings with gaps": "missing values",
    r"truth values": "booleans",
    r"sets? with a promise|thresholds? with a promise": "prediction set; threshold with a guarantee",
    r"judged (rows|retrieval)|rows that judge": "held-out rows; relevance judgements",
    r"(none|nobody|it) has (not )?seen\b": "held-out",
    r"which fit had|fit has not seen": "seen during fit",
    r"(proof|proven bound) (of|on) how (good|far the metric)": "a bound on the optimisation error",
    r"spoke against|speaks? (for|against)": "counts against",
    r"tells? .* apart where": "maps rows to the same point",
    r"it pays|paid off|did not pay": "it helps, it gains",
    r"foretold|whatever has|so many rows|whoever": "rewrite in plain words",
    r"(one|the|a) version before|of this code|versions? earlier": "name the commit in benchmarks/NOTES.md",
    r"same bits|no bit\b": "bit-identical",
    r"too kind": "optimistic",
    r"the more reliable part|surely better|a sure gain": "significantly better",
    r"lends?|foreign rows": "supply",
    r"the most that is known|useless|parted|nobody|of it all": "rewrite in plain words",
    r"the row judges|judges the|misjudged": "evaluate",
    r"surely (better|gains?|worse)": "significantly better",
    r"price of (a )?(violation|slack|eigenvalue)": "cost, weight",
    r"nothing says|says of\b": "state what is missing",
    r"give (your|the) (labels|array|rows)|give it": "pass, specify",
}


def prose_of(page):
    """The page without its code, formulas and comments, on one line."""
    text = FENCED.sub(" ", page.read_text())
    text = re.sub(r"<!--.*?-->|`[^`]*`|\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    return " ".join(text.split())


@each("page", PAGES)
def test_pages_use_the_words_of_their_readers(page):
    if page.name in ("design.md", "changelog.md"):
        return  # for developers; the changelog is a file of its own
    prose = prose_of(page)
    for pattern, better in PLAIN_WORDS.items():
        found = re.search(rf"\b(?:{pattern})\b", prose, re.IGNORECASE)
        assert found is None, f"{found[0]!r}: {better}"


# ---- figures

COMMAND = re.compile(r"`python -m benchmarks(?:\.papers)? ([\w-]+)")
RECORD = re.compile(r"<!-- record: ([\w-]+) -->")
HOW_TO = {"page"}  # commands that measure nothing


@each("page", PAGES)
def test_figures_of_a_benchmark_are_marked_with_their_record(page):
    """A page that names a benchmark in its prose says by a mark where the figures beside it are
    recorded; ``benchmarks/NOTES.md`` has a row with their commit.
    """
    notes = (ROOT / "benchmarks" / "NOTES.md").read_text()
    rows = set(re.findall(r"^\| ([\w-]+) \| [0-9a-f]{8} \|", notes, re.MULTILINE))
    text = FENCED.sub(" ", page.read_text())
    named = set(COMMAND.findall(" ".join(text.split())))
    marked = set(RECORD.findall(text))
    assert not named - marked - HOW_TO, "figures without <!-- record: NAME -->"
    assert not marked - rows, "records without a row in benchmarks/NOTES.md"
