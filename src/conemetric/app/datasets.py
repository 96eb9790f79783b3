"""Data for a first try: sets bundled with scikit-learn, and its reference as a judged
collection.
"""

import inspect
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.utils.discovery import all_estimators, all_functions

__all__ = ["BUNDLED", "JudgedTexts", "reference_pages"]

# the names that ``conemetric learn NAME`` accepts
BUNDLED = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "wdbc": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
}

SHORTEST_PAGE = 300  # characters; shorter ones are hardly more than a list of parameters


class JudgedTexts(NamedTuple):
    """Texts to search for, texts to search in, and which belong together."""

    queries: list[str]
    documents: list[str]
    names: list[str]
    relevance: np.ndarray


def reference_pages() -> JudgedTexts:
    """A small judged collection that needs no download: scikit-learn's own reference.

    The first sentence of each docstring is a query; the rest of the docstrings, some 500
    pages, are the documents. The page that a query was taken from is the relevant one.

    Returns
    -------
    JudgedTexts
        queries, documents, names (of the documents) : lists of str; relevance : integer
        array (r, 2) of [query, document].

    Examples
    --------
    >>> from conemetric.app.datasets import reference_pages
    >>> pages = reference_pages()
    >>> pages.queries[2], pages.names[2]
    ('An AdaBoost regressor.', 'AdaBoostRegressor')
    """
    found = dict([*all_estimators(), *all_functions()])
    rows = []
    for name in sorted(found, key=str.lower):
        sentence, _, page = (inspect.getdoc(found[name]) or "").partition("\n\n")
        if len(page) > SHORTEST_PAGE:
            rows.append((" ".join(sentence.split()), page, name))
    queries, documents, names = (list(column) for column in zip(*rows, strict=True))
    return JudgedTexts(queries, documents, names, np.column_stack([np.arange(len(rows))] * 2))
