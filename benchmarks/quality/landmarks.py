"""What landmarks cost in error, and how long many rows take: MetricClassifier on letter with exact
kernel ridge regression and with fewer landmarks, and on simulated rows.

    python benchmarks/landmarks.py [ROWS]
"""

import sys

import numpy as np
from papers.datasets import load
from sklearn.datasets import make_classification

from conemetric import MetricClassifier
from conemetric.core.clock import stopwatch


def timed(X, y, train, test, **parameters):
    began = stopwatch()
    classifier = MetricClassifier(random_state=0, **parameters).fit(X[train], y[train])
    seconds = stopwatch() - began
    return 100 * float(np.mean(classifier.predict(X[test]) != y[test])), seconds


def main():
    data, order = load("keel_letter"), np.random.default_rng(0).permutation(20_000)
    for m in ("auto", 2000, 1000, 500, 250):  # 5,000 rows: exact with "auto"
        error, seconds = timed(
            data.X, data.y, order[:5000], order[5000:], n_landmarks=m, metric=None
        )
        print(
            f"letter, 5,000 rows, {m} landmarks: {error:.2f} % wrong, {seconds:.1f} s", flush=True
        )
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    X, y = make_classification(n + 10_000, 20, n_informative=12, n_classes=4, random_state=0)
    error, seconds = timed(X, y, slice(0, n), slice(n, None))
    print(f"simulated, {n:,} rows: {error:.2f} % wrong, {seconds:.1f} s")


if __name__ == "__main__":
    main()
