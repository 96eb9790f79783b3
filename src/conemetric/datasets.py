"""Data for a first try: bundled, of scikit-learn, and its reference as a judged collection."""

import gzip
import inspect
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from sklearn.utils import Bunch

__all__ = ["BUNDLED", "JudgedTexts", "load_bundled", "load_vehicle", "reference_pages"]

# the names that ``conemetric learn NAME`` accepts, the default first, and what each set holds
BUNDLED = {
    "vehicle": "silhouettes of four vehicles",
    "digits": "handwritten, 8 x 8 pixels",
    "wine": "wines of three growers",
    "iris": "flowers of three species",
    "breast_cancer": "benign and malignant tumours",
}
ALIASES = {"wdbc": "breast_cancer"}


def load_bundled(name: str) -> "Bunch":
    """The set of this name: our own, or scikit-learn's."""
    module = import_module(__name__ if name == "vehicle" else "sklearn.datasets")
    return getattr(module, f"load_{name}")()


def load_vehicle() -> "Bunch":
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
    >>> from conemetric.datasets import load_vehicle
    >>> vehicle = load_vehicle()
    >>> vehicle.data.shape, vehicle.target_names.tolist()
    ((846, 18), ['bus', 'opel', 'saab', 'van'])
    """
    import numpy as np
    from sklearn.utils import Bunch

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


SHORTEST_PAGE = 300  # characters; shorter ones are hardly more than a list of parameters


class JudgedTexts(NamedTuple):
    """Texts to search for, texts to search in, and which belong together."""

    queries: list[str]
    documents: list[str]
    names: list[str]
    relevance: "np.ndarray"


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
    >>> from conemetric.datasets import reference_pages
    >>> pages = reference_pages()
    >>> pages.queries[2], pages.names[2]
    ('An AdaBoost regressor.', 'AdaBoostRegressor')
    """
    import numpy as np
    from sklearn.utils.discovery import all_estimators, all_functions

    found = dict([*all_estimators(), *all_functions()])
    rows = []
    for name in sorted(found, key=str.lower):
        sentence, _, page = (inspect.getdoc(found[name]) or "").partition("\n\n")
        if len(page) > SHORTEST_PAGE:
            rows.append((" ".join(sentence.split()), page, name))
    queries, documents, names = (list(column) for column in zip(*rows, strict=True))
    return JudgedTexts(queries, documents, names, np.column_stack([np.arange(len(rows))] * 2))
