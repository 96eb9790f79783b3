"""Seconds and recall of the neighbour search on the host, beside FAISS and against the number of rows.

One of six things is measured:

    mnist     searches and fits of 50,000 digits, all rows
    sample    among samples of 180,000 shifted digits and of 200,000 simulated points
    surface   searches of 100,000 x 128, 100 classes
    million   1,000,000 x 128, from labels to a metric
    growth    seconds against the number of rows, kept in the file of --results
    plot      draws the files of --results into --figure

`mnist` takes 50,000 digits in 164 principal components (float32) and finds 3 targets and 10 impostors
of each. FAISS flat finds as many neighbours of any label. FAISS answers the question itself in two
ways: a graph (HNSW) of each class for the targets, and one of all points for the impostors,
over-fetched, rows that fell short fetched again, eight times as many, and at last exactly; or
inverted lists (IVF) that pass over the own label. The search among a sample takes 20,000 rows.
Seconds are of one run, and so is the 3-NN test error after either.

`surface`, `million` and `growth` take Gaussian classes near a surface of 16 dimensions. Threads are
as many as cores: pin all of them to the cores that they are to use.

    taskset -c 0,1 python -m benchmarks neighbours mnist
    python -m benchmarks neighbours growth --results growth.json --methods sample all
    python -m benchmarks neighbours plot --results a.json b.json --figure neighbours.png

Data: mnist for mnist and sample; simulated for the others
Minutes: 4 for mnist, 10 for sample (estimated), an hour or more for million and growth on two cores
Needs: faiss
"""

import json
from itertools import islice, pairwise, product
from pathlib import Path

import numpy as np

from conemetric import FrobMetric
from conemetric.core.threads import n_threads
from conemetric.evaluation.knn import knn_error
from conemetric.neighbours import host
from conemetric.neighbours.ranks import LabelledRows, SearchQuery
from conemetric.neighbours.search import neighbours_by_label, sample_rows

from ..command import command_parser
from ..data import load, mnist_components
from ..measuring import exponent, peak_memory, timed

SAMPLE = 20_000  # rows of the sample to search among
FETCHED = 64, 512  # neighbours of any label that the graph is asked for, in turn


def search_query(X, y, rows=None, n_targets=3, n_impostors=10):
    points = LabelledRows(X, y)
    if rows is None:
        return SearchQuery(points, points, n_targets, n_impostors, np.arange(len(y)))
    return SearchQuery(LabelledRows(X[rows], y[rows]), points, n_targets, n_impostors, rows)


def share(found, true):
    pairs = zip(true, found, strict=True)
    return float(np.mean([np.isin(these, those).mean() for these, those in pairs]))


# ---- FAISS


def flat(X):
    import faiss

    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)
    return index.search(X, 14)


def graph(X):
    import faiss

    index = faiss.IndexHNSWFlat(X.shape[1], 16)
    index.hnsw.efConstruction = 40
    index.add(X)
    return index


def fetch(index, X, k):
    index.hnsw.efSearch = max(32, k)
    return index.search(X, k)[1]


def by_graphs(X, y):
    """(targets, impostors, rows that were searched exactly at last)."""
    targets = np.full((len(y), 3), -1)
    impostors = np.full((len(y), 10), -1)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        numbers = rows[fetch(graph(X[rows]), X[rows], 4)]
        targets[rows] = first(numbers, numbers != rows[:, None], 3)
    index = graph(X)
    rows = np.arange(len(y))
    for k in FETCHED:
        numbers = fetch(index, X[rows], min(k, len(y)))
        impostors[rows] = first(numbers, (numbers >= 0) & (y[numbers] != y[rows, None]), 10)
        rows = rows[impostors[rows, -1] < 0]
    if len(rows):
        impostors[rows] = host.search(search_query(X, y, rows, n_targets=0)).other.numbers
    return targets, impostors, len(rows)


def first(numbers, wanted, k):
    """The first k wanted entries of each row; -1 where there are fewer."""
    place = wanted.cumsum(1) - 1
    row, column = np.nonzero(wanted & (place < k))
    kept = np.full((len(numbers), k), -1)
    kept[row, place[row, column]] = numbers[row, column]
    return kept


def by_lists(X, y, n_probes):
    """(targets, impostors) from inverted lists, one class of queries at a time."""
    import faiss

    order = np.argsort(y, kind="stable")
    X, y = np.ascontiguousarray(X[order]), y[order]
    n_lists = round(2 * len(y) ** 0.5)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(X.shape[1]), X.shape[1], n_lists)
    index.cp.seed = 0
    index.cp.niter = 5
    index.cp.max_points_per_centroid = 32
    index.cp.min_points_per_centroid = 1
    index.train(X)
    index.add(X)
    targets = np.full((len(y), 3), -1)
    impostors = np.full((len(y), 10), -1)
    ends = np.searchsorted(y, np.arange(y.max() + 2)).tolist()
    for low, high in pairwise(ends):
        own = faiss.IDSelectorRange(low, high)
        search = faiss.SearchParametersIVF(sel=own, nprobe=n_probes)
        numbers = index.search(X[low:high], 4, params=search)[1]
        targets[order[low:high]] = first(
            order[numbers], (numbers >= 0) & (numbers != np.arange(low, high)[:, None]), 3
        )
        search = faiss.SearchParametersIVF(sel=faiss.IDSelectorNot(own), nprobe=n_probes)
        numbers = index.search(X[low:high], 10, params=search)[1]
        impostors[order[low:high]] = first(order[numbers], numbers >= 0, 10)
    return targets, impostors


# ---- both beside each other


def searches(X, y):
    """Print what each search takes, and its recall over a sample of points."""
    import faiss

    faiss.omp_set_num_threads(n_threads())
    small = search_query(X[:3000], y[:3000])
    host.search(small)  # compile the kernels
    few = len(y) <= 200_000
    sample = np.random.default_rng(1).permutation(len(y))[:5000]
    true = host.search(search_query(X, y, sample))

    def show(name, wall, busy, found, more=""):
        targets = share(found[0][sample], true.same.numbers)
        impostors = share(found[1][sample], true.other.numbers)
        print(
            f"{name}: {wall:.2f} s ({busy:.2f}), recall {(3 * targets + 10 * impostors) / 13:.4f} "
            f"(targets {targets:.4f}, impostors {impostors:.4f}){more}",
            flush=True,
        )

    if few:
        wall, busy, _ = timed(flat, X)
        print(f"FAISS flat, 13 of any label: {wall:.2f} s ({busy:.2f} of processors)", flush=True)
        wall, busy, found = timed(host.search, search_query(X, y))
        lists = found.same.numbers, found.other.numbers
        show("exact", wall, busy, lists)
    wall, busy, (*found, n_left) = timed(by_graphs, X, y)
    show("FAISS HNSW", wall, busy, found, f", {n_left} rows searched exactly")
    for n_probes in (24, 48, 96) if few else ():
        wall, busy, found = timed(by_lists, X, y, n_probes)
        show(f"FAISS IVF, {n_probes} lists", wall, busy, found)


def mnist(n):
    X, y, X_test, y_test = mnist_components(n, dtype=np.float32)
    print(f"MNIST, {n} x 164 float32, {n_threads()} threads", flush=True)
    searches(X, y)
    FrobMetric().fit(X[:2000], y[:2000])  # compile the kernels
    errors = {}
    for count in (None, SAMPLE):
        wall, busy, metric = timed(FrobMetric(n_references=count, random_state=0).fit, X, y)
        errors[count] = 100 * knn_error(metric, X, y, X_test, y_test)
        print(
            f"FrobMetric(n_references={count}): {wall:.2f} s ({busy:.2f}), of which solving "
            f"{metric.history_['seconds'][-1]:.2f} s, {len(metric.triplets_)} triplets, gap "
            f"{metric.certificate_.relative_gap:.1e}, 3-NN test error {errors[count]:.2f} %",
            flush=True,
        )
    print(f"difference in error {errors[SAMPLE] - errors[None]:+.2f} points")


def shifted_digits(n):
    """Training digits and their shifts by a pixel or two, and the test digits, in 64 features."""
    from sklearn.decomposition import PCA

    data = load("mnist")
    X, y = (data.X / 255.0).astype(np.float32), data.y.astype(np.int64)
    images, shifts = X[:60_000].reshape(-1, 28, 28), product((0, 1, -1, 2, -2), repeat=2)
    moved = [np.roll(images, by, (1, 2)) for by in islice(shifts, -(-n // 60_000))]
    pca = PCA(64, random_state=0, svd_solver="covariance_eigh").fit(X[:60_000])
    train = [pca.transform(part.reshape(len(part), -1)).astype(np.float32) for part in moved]
    labels = np.tile(y[:60_000], len(moved))[:n]
    return np.concatenate(train)[:n], labels, pca.transform(X[60_000:]), y[60_000:]


def sample(n):
    print("shifted digits")
    among_samples(*shifted_digits(n or 180_000))
    n = n or 200_000
    X, y = surface(n + 5000, 64)
    print("overlapping classes")
    among_samples(X[:n], y[:n], X[n:], y[n:])


def among_samples(X, y, X_test, y_test):
    print(f"Euclidean: {100 * knn_error(None, X, y, X_test, y_test):.2f} %", flush=True)
    for count in (5000, 20_000, 50_000):
        FrobMetric(n_references=500, tol=0.1).fit(X[:3000], y[:3000])  # compile the kernels
        references = sample_rows(y, count, 3, 0)
        wall, busy, found = timed(neighbours_by_label, X, y, 3, 3, references)
        metric = FrobMetric().fit(X, y, neighbors=found)
        error = 100 * knn_error(metric, X, y, X_test, y_test)
        print(
            f"among {count}: {wall:.1f} s ({busy:.1f}), 3-NN test error {error:.2f} %", flush=True
        )


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


def gibibytes():
    return peak_memory() / 2**30


def million(n, D):
    X, y = surface(n, D)
    FrobMetric(n_references=1000, tol=0.1).fit(X[:3000], y[:3000])
    print(
        f"{n} x {D} float32, {n_threads()} threads, {gibibytes():.1f} GiB with the points",
        flush=True,
    )
    wall, busy, metric = timed(FrobMetric(random_state=0).fit, X, y)
    print(
        f"labels to metric: {wall:.0f} s ({busy:.0f}), of which solving "
        f"{metric.history_['seconds'][-1]:.0f} s in {metric.n_iter_} iterations; "
        f"{metric.n_references_} references, {len(metric.triplets_)} triplets, gap "
        f"{metric.certificate_.relative_gap:.1e}, {gibibytes():.1f} GiB at most",
        flush=True,
    )


# ---- growth


def search_by(method, X, y):
    references = sample_rows(y, SAMPLE, 3, 0) if method == "sample" and len(y) > SAMPLE else None
    return neighbours_by_label(X, y, 3, 10, references)


def growth(sizes, D, methods, results):
    print(f"growth, D = {D}, {n_threads()} threads", flush=True)
    curves: dict[str, list] = {method: [] for method in methods}
    small = surface(3000, D)
    neighbours_by_label(*small, 3, 10)
    for n in sizes:
        X, y = surface(n, D)
        for method, points in curves.items():
            wall, busy, found = timed(search_by, method, X, y)
            points.append((n, wall, busy))
            print(
                f"{method:12s} n = {n:8d} {wall:8.2f} s ({busy:.2f}), {len(found.targets)} rows",
                flush=True,
            )
            if results:
                Path(results).write_text(json.dumps(curves))
    for method, points in curves.items():
        n, _, busy = zip(*points, strict=True)
        print(f"{method}: processor time grows as n^{exponent(n, busy):.2f}")


def plot(results, figure):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves: dict[str, list] = {}
    for path in results:
        for method, points in json.loads(Path(path).read_text()).items():
            curves[method] = sorted(curves.get(method, []) + points)
    drawing, axis = plt.subplots(figsize=(5, 4), layout="constrained")
    for method, points in curves.items():
        n, _, busy = np.array(points).T
        axis.loglog(n, busy, "o-", label=f"{method}, $n^{{{exponent(n, busy):.2f}}}$")
    axis.set(xlabel="points", ylabel="processor seconds")
    axis.grid(alpha=0.3)
    drawing.legend(loc="outside upper left")
    plt.savefig(figure, dpi=150)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("what", choices=["mnist", "sample", "surface", "million", "growth", "plot"])
    parser.add_argument("--points", type=int)
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    parser.add_argument("--methods", nargs="*", default=["all", "sample"])
    parser.add_argument("--results", nargs="*", default=[])
    parser.add_argument("--figure", default="neighbours.png")
    options = parser.parse_args(arguments)
    if options.what == "mnist":
        mnist(options.points or 50_000)
    elif options.what == "sample":
        sample(options.points)
    elif options.what == "surface":
        X, y = surface(options.points or 100_000, options.dimensions)
        print(f"surface, {len(X)} x {X.shape[1]} float32, {n_threads()} threads", flush=True)
        searches(X, y)
    elif options.what == "million":
        million(options.points or 1_000_000, options.dimensions)
    elif options.what == "growth":
        growth(options.sizes, options.dimensions, options.methods, *options.results[:1] or [None])
    else:
        plot(options.results, options.figure)
