"""Data for a first try: a set that comes with this package, those of scikit-learn, and its
reference as a judged collection.
"""

import gzip
import inspect
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from sklearn import datasets
from sklearn.utils import Bunch
from sklearn.utils.discovery import all_estimators, all_functions

__all__ = ["BUNDLED", "JudgedTexts", "load_vehicle", "reference_pages"]


def load_vehicle() -> Bunch:
    """Statlog (Vehicle Silhouettes): four model vehicles by 18 numbers about their shape.

    Returns
    -------
    Bunch
        As scikit-learn's: ``data`` (846, 18), ``target`` (846,), ``feature_names``,
        ``target_names`` and ``DESCR``, which names source and licence (CC BY 4.0).

    References
    ----------
    J. P. Siebert, "Vehicle recognition using rule based methods", Turing Institute Research
    Memorandum TIRM-87-018, 1987.

    Examples
    --------
    >>> from conemetric.app.datasets import load_vehicle
    >>> vehicle = load_vehicle()
    >>> vehicle.data.shape, vehicle.target_names.tolist()
    ((846, 18), ['bus', 'opel', 'saab', 'van'])
    """
    folder = files(__package__) / "data"
    text = gzip.decompress((folder / "vehicle.csv.gz").read_bytes()).decode()
    header, *rows = (line.split(",") for line in text.splitlines())
    table = np.array(rows)
    classes, target = np.unique(table[:, -1], return_inverse=True)
    return Bunch(
        data=table[:, :-1].astype(float),
        target=target,
        feature_names=header[:-1],
        target_names=classes,
        DESCR=(folder / "README.md").read_text(encoding="utf-8"),
    )


# the names that ``conemetric learn NAME`` accepts, the default first, and what each set holds
BUNDLED = {
    "vehicle": (load_vehicle, "silhouettes of four vehicles"),
    "digits": (datasets.load_digits, "handwritten, 8 x 8 pixels"),
    "wine": (datasets.load_wine, "wines of three growers"),
    "iris": (datasets.load_iris, "flowers of three species"),
    "breast_cancer": (datasets.load_breast_cancer, "benign and malignant tumours"),
}
ALIASES = {"wdbc": "breast_cancer"}

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
