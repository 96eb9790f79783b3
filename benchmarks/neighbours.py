"""The neighbour search on the host: exact beside FAISS, approximate, whole fits, growth.

    python benchmarks/neighbours.py mnist                 exact, FAISS flat, approximate, fits
    python benchmarks/neighbours.py million               1,000,000 x 128, labels to metric
    python benchmarks/neighbours.py growth [--figure neighbours.png]

`mnist` takes 50,000 digits by PCA to 164 dimensions (float32) and finds 3 targets and 10
impostors of each; FAISS flat finds as many neighbours of any label. Seconds of all are
of one run, and so is the 3-NN test error after either search. `million` and `growth`
take Gaussian classes near a surface of few dimensions. Needs the `mnist` data set.
"""

import argparse
import resource
import time

import numpy as np

from conemetric import FrobMetric, datasets
from conemetric.evaluation.knn import knn_error
from conemetric.neighbours import Labelled, Question, approximate, exact, neighbours_by_label


def timed(function, *args, **keywords):
    """(wall seconds, processor seconds, result)."""
    began, busy = time.perf_counter(), time.process_time()
    result = function(*args, **keywords)
    return time.perf_counter() - began, time.process_time() - busy, result


def question(X, y, n_targets=3, n_impostors=10):
    points = Labelled(X, y)
    return Question(points, points, n_targets, n_impostors, np.arange(len(y)))


def share(found, true):
    pairs = zip(true, found, strict=True)
    return float(np.mean([np.isin(these, those).mean() for these, those in pairs]))


def digits():
    from sklearn.decomposition import PCA

    data = datasets.load("mnist")
    X, y = data.X / 255.0, data.y.astype(np.int64)
    pca = PCA(164, random_state=0, svd_solver="covariance_eigh").fit(X[:50_000])
    train, test = (
        pca.transform(X[rows]).astype(np.float32) for rows in (slice(50_000), slice(60_000, None))
    )
    return train, y[:50_000], test, y[60_000:]


def mnist():
    import faiss

    X, y, X_test, y_test = digits()
    exact.search(question(X[:3000], y[:3000]))  # compile the kernels
    approximate.search(question(X[:3000], y[:3000]), np.random.RandomState(0))

    def flat():
        index = faiss.IndexFlatL2(X.shape[1])
        index.add(X)
        return index.search(X, 14)

    for turn in range(2):
        wall, busy, _ = timed(flat)
        print(f"FAISS flat, 13 of any label: {wall:.2f} s ({busy:.2f} s of processors)", flush=True)
        wall, busy, true = timed(exact.search, question(X, y))
        print(
            f"exact, 3 targets and 10 impostors: {wall:.2f} s ({busy:.2f}), {true.n_again} again",
            flush=True,
        )
        random_state = np.random.RandomState(turn)
        wall, busy, (found, recall) = timed(approximate.search, question(X, y), random_state)
        print(
            f"approximate: {wall:.2f} s ({busy:.2f}), recall measured {recall:.4f}, of targets "
            f"{share(found.same, true.same):.4f}, of impostors {share(found.other, true.other):.4f}",
            flush=True,
        )
    errors = {}
    for method in ("exact", "approximate"):
        wall, busy, metric = timed(FrobMetric(neighbors=method).fit, X, y)
        errors[method] = 100 * knn_error(metric, X, y, X_test, y_test)
        print(
            f"FrobMetric(neighbors={method!r}): {wall:.2f} s ({busy:.2f}), "
            f"{len(metric.triplets_)} triplets, gap {metric.certificate_.relative_gap:.1e}, "
            f"3-NN test error {errors[method]:.2f} %",
            flush=True,
        )
    print(f"difference in error {errors['approximate'] - errors['exact']:+.2f} points")


def surface(n, D, n_classes=100, seed=0):
    """Overlapping Gaussian classes of 16 dimensions in D, with noise in all of them."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = np.empty((n, D), np.float32)
    into, centres = rng.normal(size=(16, D)), rng.normal(size=(n_classes, 16))
    for start in range(0, n, 100_000):
        part = slice(start, start + 100_000)
        points = rng.normal(size=(len(y[part]), 16)) + centres[y[part]]
        X[part] = points @ into + 0.3 * rng.normal(size=(len(points), D))
    return X, y


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def million(n, D):
    X, y = surface(n, D)
    neighbours_by_label(X[:3000], y[:3000], 3, "auto", "approximate")
    print(f"{n} x {D} float32; {peak():.1f} GiB with the points", flush=True)
    wall, busy, found = timed(neighbours_by_label, X, y, 3, "auto", "approximate", 0)
    print(
        f"approximate search: {wall:.0f} s ({busy:.0f} of processors), recall {found.recall:.4f}, "
        f"{found.impostors.shape[1]} impostors, {peak():.1f} GiB at most",
        flush=True,
    )
    del found
    wall, busy, metric = timed(FrobMetric(neighbors="approximate", random_state=0).fit, X, y)
    print(
        f"labels to metric: {wall:.0f} s ({busy:.0f}), {len(metric.triplets_)} triplets, gap "
        f"{metric.certificate_.relative_gap:.1e}, {peak():.1f} GiB at most",
        flush=True,
    )


def growth(sizes, D, figure):
    curves: dict[str, list] = {"exact": [], "approximate": []}
    for n in sizes:
        X, y = surface(n, D)
        for method, points in curves.items():
            if method == "exact" and n > 200_000:
                continue
            wall, busy, found = timed(neighbours_by_label, X, y, 3, 10, method, 0)
            points.append((n, wall, busy))
            print(
                f"{method:12s} n = {n:8d} {wall:8.2f} s ({busy:.2f}), recall {found.recall:.4f}",
                flush=True,
            )
    for method, points in curves.items():
        table = np.log(np.array(points))
        print(
            f"{method}: processor time grows as n^{np.polyfit(table[:, 0], table[:, 2], 1)[0]:.2f}"
        )
    if figure:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        _, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
        for method, points in curves.items():
            n, wall, busy = np.array(points).T
            axis.loglog(n, busy, "o-", label=method)
        axis.set(xlabel="points", ylabel="processor seconds")
        axis.grid(alpha=0.3)
        axis.legend()
        plt.savefig(figure, dpi=150)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["mnist", "million", "growth"])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    parser.add_argument("--figure")
    options = parser.parse_args()
    if options.what == "mnist":
        mnist()
    elif options.what == "million":
        million(options.points, options.dimensions)
    else:
        growth(options.sizes, options.dimensions, options.figure)


if __name__ == "__main__":
    main()
