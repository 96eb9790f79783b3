"""Messages, help, reports and public docstrings use the words of their readers.

`tests/test_docs.py` asks the same of the pages.
"""

import ast
import re
from pathlib import Path

import pytest
from cases import each
from test_docs import API, PLAIN_WORDS

SOURCE = Path(__file__).parents[1] / "src" / "conemetric"
FILES = sorted(SOURCE.rglob("*.py"))
TEMPLATES = sorted(SOURCE.rglob("*.html"))

# what messages do not say, beside what pages do not: what they say instead
IN_MESSAGES = {
    r"give": "pass, specify",
    r"gaps:": "missing values",
    r"words:": "categories",
    r"as asked": "ignored by request",
    r"(goes|go) with dask": "is supported with dask",
    r"to go on,": "raise ... to accept this solution",
    r"nor others to": "and no comparison models",
    r"takes? them long": "skipped: too many rows or classes",
    r"does not count": "cannot reproduce",
    r"unlike in fit": "unlike during fit",
    r"cent(re|er) of (their|its) column": "the column mean",
    r"one value only": "constant",
    r"judges?|judged (on|by|once)|judging": "evaluate, held out",
}
# words that mean what they say in a collection of queries
JUDGEMENTS = re.compile(r"judged? (more )?(queries|documents|pages|relevant|not relevant)")
CODE = re.compile(r"``.*?``|`[^`]*`|>>> .*?$", re.MULTILINE)


def is_string(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def first_string(node):
    """The docstring's node, None without one."""
    body = getattr(node, "body", None)
    if not isinstance(body, list) or not body or not isinstance(body[0], ast.Expr):
        return None
    return body[0].value if is_string(body[0].value) else None


def public_docstrings(node, public=False):
    """Docstrings of what the API page lists, and of its public methods."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef):
            continue
        shown = re.search(rf"^   (\w+\.)*{child.name}$", API, re.MULTILINE)
        listed = bool(shown) or (public and not child.name.startswith("_"))
        if listed and first_string(child):
            yield first_string(child).value
        if isinstance(child, ast.ClassDef):
            yield from public_docstrings(child, listed)


def texts_of(source):
    """The sentences of a module that a user may read: messages, help, and public docstrings."""
    tree = ast.parse(source)
    docstrings = {id(first_string(node)) for node in ast.walk(tree)}
    for node in ast.walk(tree):
        if is_string(node) and id(node) not in docstrings and " " in node.value.strip():
            yield node.value
    yield from public_docstrings(tree)


def faults(text, patterns):
    """What a text should not say, with what it should."""
    text = JUDGEMENTS.sub(" ", CODE.sub(" ", " ".join(text.split())))
    for pattern, better in patterns.items():
        found = re.search(rf"\b(?:{pattern})(?!\w)", text, re.IGNORECASE)
        if found:
            around = text[max(0, found.start() - 30) : found.end() + 30]
            yield f"{found[0]!r} in {around!r}: {better}"


@each("path", FILES)
def test_messages_use_the_words_of_their_readers(path):
    patterns = PLAIN_WORDS | IN_MESSAGES
    found = [fault for text in texts_of(path.read_text()) for fault in faults(text, patterns)]
    assert not found, found


@each("path", TEMPLATES)
def test_reports_use_the_words_of_their_readers(path):
    shown = re.sub(r"\{%.*?%\}|<[^>]*>", " ", path.read_text(), flags=re.DOTALL)
    quoted = " ".join(re.findall(r'"([^"]* [^"]*)"', path.read_text()))
    found = [fault for text in (shown, quoted) for fault in faults(text, PLAIN_WORDS)]
    assert not found, found


@pytest.mark.parametrize(
    "source",
    [
        'raise ValueError(f"X has {n} rows; give more.")',
        'NOTE = "Gaps: 3 % of the entries"',
        'class FrobMetric:\n    def fit(self):\n        """Rows are judged by the plain distance."""',
    ],
)
def test_old_words_are_found(source):
    found = [f for text in texts_of(source) for f in faults(text, PLAIN_WORDS | IN_MESSAGES)]
    assert found


@pytest.mark.parametrize(
    "source",
    [
        '"judge more queries, or the certified gap"',
        'class FrobMetric:\n    def _fit(self):\n        """Rows that judge, by the plain distance."""',
    ],
)
def test_words_that_mean_what_they_say_are_not(source):
    assert not [f for text in texts_of(source) for f in faults(text, PLAIN_WORDS | IN_MESSAGES)]
