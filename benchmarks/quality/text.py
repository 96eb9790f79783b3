"""Error, seconds and memory of k-NN on texts as TF-IDF of their words, with and without a metric.

The texts are one-line descriptions of Debian packages, in 33 sections. Prints the share of test rows
that the ten nearest training rows get wrong, the seconds of the fit (vectoriser left out) and how far
the process' peak memory grew, each method in a process of its own: the cosine of the words,
`TruncatedSVD` and the cosine, `TruncatedSVD` and a metric, and a metric on the sparse rows themselves. A
metric on sparse rows is exact while rows or words are at most 5,000.

    python -m benchmarks text --train 3000 --components 200
    python -m benchmarks text --train 11817 --words 2000 --components 200

Data: debian_minilm384 (its texts)
Minutes: 2
"""

import warnings

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from conemetric import FrobMetric

from ..command import command_parser
from ..data import load
from ..measuring import peak_memory, timed
from ..processes import in_own_process

K = 10


def methods(n_components):
    reduced = (TruncatedSVD(n_components, random_state=0), Normalizer())
    return {
        "cosine": [],
        "svd, cosine": [*reduced],
        "svd, metric": [*reduced, FrobMetric()],
        "svd, metric near the identity": [*reduced, FrobMetric(prior="identity")],
        "sparse, metric": [FrobMetric()],
        "sparse, metric near the identity": [FrobMetric(prior="identity")],
    }


def measure(name, n_train, n_words, n_components):
    warnings.simplefilter("ignore")
    data = load("debian_minilm384")
    text = data.extras["text"]
    y = data.y
    first = data.n_train
    chosen = np.random.default_rng(0).permutation(first)[: n_train or first]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=n_words)
    X = words.fit_transform(text[chosen])
    X_test = words.transform(text[first:])
    knn = KNeighborsClassifier(K, algorithm="brute")
    pipeline = make_pipeline(*methods(n_components)[name], knn)
    before = peak_memory()
    fitting = timed(pipeline.fit, X, y[chosen])
    grown = peak_memory() - before
    last = pipeline[-2:][0]
    gap = f"{last.certificate_.relative_gap:.1e}" if hasattr(last, "certificate_") else "-"
    return {
        "shape": X.shape,
        "words": X.nnz,
        "error": 1 - pipeline.score(X_test, y[first:]),
        "wall": fitting.wall,
        "processor": fitting.processor,
        "grown": grown / 1e6,
        "gap": gap,
    }


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--words", type=int, default=None)
    parser.add_argument("--components", type=int, default=100)
    parser.add_argument("--only", nargs="*", choices=list(methods(1)))
    options = parser.parse_args(arguments)
    for name in options.only or methods(options.components):
        found = in_own_process(measure, name, options.train, options.words, options.components)
        rows, columns = found["shape"]
        print(
            f"{name}: {rows} x {columns}, {found['words']} words in all, error "
            f"{100 * found['error']:.1f} %, {found['wall']:.1f} s ({found['processor']:.1f} s of "
            f"processors), + {found['grown']:.0f} MB, gap {found['gap']}",
            flush=True,
        )
