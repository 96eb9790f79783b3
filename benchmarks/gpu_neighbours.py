"""From labels to a certified metric on a device: the neighbour search and the whole fit.

    python benchmarks/gpu_neighbours.py [--device cuda] [--sizes 10000 100000 1000000]

Prints, on Gaussian classes with a falling spectrum (100 classes, float32):

- fits of 1,000,000 x 384 and 100,000 x 768 from labels, with the seconds of their
  neighbour search;
- which lists of a random sample of queries differ from brute force in float64 on the
  device, at these sizes and both precisions;
- how many lists were searched again, and in which format products were formed;
- seconds of each part of the search;
- seconds against n with the exponent of a power law.

``--small`` runs all of it in a minute on a CPU, by the code for devices.
"""

import argparse
import time

import numpy as np
import torch

from conemetric import FrobMetric
from conemetric.neighbours import gpu as device
from conemetric.neighbours.ranks import LabelledRows, SearchQuery, tie_rule


def classes(n, D, where, n_classes=100, seed=0, dtype=torch.float32):
    """Overlapping Gaussian classes whose variances fall as those of embeddings do."""
    generator = torch.Generator(device=where).manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, device=where)  # noqa: E731
    spread = torch.arange(1, D + 1, device=where) ** -0.4
    y = torch.randint(n_classes, (n,), generator=generator, device=where)
    X = (normal(n, D) + normal(n_classes, D)[y]) * spread
    return X.to(dtype), y.cpu().numpy()


def timed(where, function, *args):
    if where == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = function(*args)
    if where == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began, result


def search_query(X, y, n_impostors=10):
    points = LabelledRows(X, y)
    return SearchQuery(points, points, 3, n_impostors, np.arange(len(y)))


def wrong_lists(X, y, found, n_queries=1000):
    """Lists of a sample of queries whose distances are not those of the nearest by
    differences in float64, beyond what makes ties.
    """
    sample = torch.randperm(len(X), generator=torch.Generator().manual_seed(1))[:n_queries]
    labels, wrong = torch.as_tensor(y, device=X.device), 0
    per_length, slope = tie_rule(X.shape[1], torch.finfo(X.dtype).eps)
    for i in sample.tolist():
        exact = torch.linalg.vector_norm(X.double() - X[i].double(), dim=1)
        exact[i] = torch.inf
        tie = per_length * float(X[i].double().norm())
        for numbers, alike in ((found.same.numbers, True), (found.other.numbers, False)):
            allowed = torch.where((labels == labels[i]) == alike, exact, torch.inf)
            best = allowed.topk(numbers.shape[1], largest=False).values
            distances = allowed[numbers[i]].sort().values
            wrong += int(not torch.allclose(distances, best, rtol=slope, atol=tie))
    return wrong, 2 * len(sample)


def fit(n, D, where):
    X, y = classes(n, D, where)
    FrobMetric(max_iter=2, tol=0.5).fit(X[:5000], y[:5000])
    device.search(search_query(X[:5000], y[:5000]))
    searching, found = timed(where, device.search, search_query(X, y))
    state = device.DeviceSearch(search_query(X, y))
    state._factors()
    wrong, lists = wrong_lists(X, y, found)
    print(
        f"{n} x {D}: search {searching:.2f} s; {wrong} of {lists} sampled lists wrong; "
        f"products in {state.format}, "
        f"gamma {state.gamma:.1e}",
        flush=True,
    )
    del found, state
    seconds, metric = timed(where, FrobMetric().fit, X, y)
    certificate = metric.certificate_
    print(
        f"  FrobMetric from labels: {seconds:.2f} s, {len(metric.multipliers_)} triplets, "
        f"certified gap {certificate.relative_gap:.1e} ({certificate.status.value})",
        flush=True,
    )
    if where == "cuda":
        print(f"  most memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB", flush=True)


def parts(n, D, where):
    """Seconds of the parts of a search, those of one block of queries times the blocks."""
    X, y = classes(n, D, where)
    state = device.DeviceSearch(search_query(X, y))
    times = {}
    times["preparing"], (left, right) = timed(where, state._factors)
    rows = slice(0, min(n, max(1, device.MAX_DISTANCES // len(right))))
    tile = device._product(left[rows], right)
    count = 10 + device.SPARE_CANDIDATES
    references = torch.full((n, count), -1, device=where)
    limits = torch.full((n,), np.inf, device=where, dtype=torch.float64)
    select = device._keep_least, tile, 0, rows, device.Candidates(references, limits)
    timed(where, *select)
    minima = tile.unflatten(1, (-1, device.CHUNK)).amin
    blocks = n / rows.stop
    times["products"] = blocks * timed(where, device._product, left[rows], right)[0]
    times["chunk minima"] = blocks * timed(where, minima, 2)[0]
    times["selection with these"] = blocks * timed(where, *select)[0]
    times["all candidates"], (_, near_other) = timed(where, state.candidates)
    times["ranking of impostors"] = timed(where, state.rank, False, near_other)[0]
    print(f"parts of {n} x {D}: ", ", ".join(f"{name} {s:.2f} s" for name, s in times.items()))


def growth(sizes, D, where):
    times = []
    for n in sizes:
        asked = search_query(*classes(n, D, where))
        times.append(min(timed(where, device.search, asked)[0] for _ in range(2)))
        print(f"n = {n:8d}, D = {D}: {times[-1]:.3f} s", flush=True)
    if len(sizes) > 1:
        print(f"time grows as n^{np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}")


def exactness(where, n, D):
    for dtype in (torch.float32, torch.float64):
        for name, shift in (("plain", 0.0), ("offset", 1e3)):
            X, y = classes(n, D, where, dtype=dtype)
            X = X + shift
            found = device.search(search_query(X, y))
            wrong, lists = wrong_lists(X, y, found, 300)
            print(f"{dtype}, {name}: {wrong} of {lists} lists wrong")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    where = options.device
    if options.small:
        large, wide, exact, sizes = (4000, 48), (2000, 96), (2000, 48), [1000, 2000, 4000]
    else:
        large, wide, exact, sizes = (1_000_000, 384), (100_000, 768), (50_000, 384), options.sizes
    exactness(where, *exact)
    fit(*wide, where)
    fit(*large, where)
    parts(*large, where)
    growth(sizes, large[1], where)


if __name__ == "__main__":
    main()
