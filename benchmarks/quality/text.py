"""Words as they are: one-line descriptions of Debian packages, TF-IDF, k-NN over 33 sections.

    python benchmarks/text.py --train 1000
    python benchmarks/text.py --train 11817 --words 2000 --components 200

Prints the share of test rows that the ten nearest training rows get wrong, the seconds
of the fit (vectoriser left out) and how far the process' peak memory grew, each method
in a process of its own: the cosine of the words, `TruncatedSVD` and the cosine,
`TruncatedSVD` and a metric, and a metric on the sparse rows themselves. A metric on sparse
rows is exact while rows or words are at most 5,000.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from papers.datasets import local_file
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from conemetric import FrobMetric

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


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name, n_train, n_words, n_components):
    with np.load(local_file("debian_minilm384")) as data:
        text, y, first = data["text"], data["y"], int(data["n_train"])
    chosen = np.random.default_rng(0).permutation(first)[: n_train or first]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=n_words)
    X, X_test = words.fit_transform(text[chosen]), words.transform(text[first:])
    knn = KNeighborsClassifier(K, algorithm="brute")
    pipeline = make_pipeline(*methods(n_components)[name], knn)
    before, start, cpu = peak(), time.perf_counter(), time.process_time()
    pipeline.fit(X, y[chosen])
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    grown = peak() - before
    error = 1 - pipeline.score(X_test, y[first:])
    gap = "" if not hasattr(pipeline[-2:][0], "certificate_") else pipeline[-2].certificate_
    gap = f"{gap.relative_gap:.1e}" if gap else "-"
    return X.shape, X.nnz, error, seconds, cpu, grown / 1e6, gap


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=1000)
    parser.add_argument("--words", type=int, default=None)
    parser.add_argument("--components", type=int, default=100)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--worker", default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.worker:
        found = measure(args.worker, args.train, args.words, args.components)
        print(json.dumps(found))
        return
    for name in methods(args.components):
        if args.only is not None and name not in args.only:
            continue
        command = [sys.executable, __file__, "--worker", name, "--train", str(args.train)]
        command += ["--components", str(args.components)]
        command += [] if args.words is None else ["--words", str(args.words)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        shape, nnz, error, seconds, cpu, megabytes, gap = json.loads(out.splitlines()[-1])
        print(
            f"{name}: {shape[0]} x {shape[1]}, {nnz} words in all, error {100 * error:.1f} %, "
            f"{seconds:.1f} s ({cpu:.1f} s of CPU), + {megabytes:.0f} MB, gap {gap}",
            flush=True,
        )


if __name__ == "__main__":
    main()
