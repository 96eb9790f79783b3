"""Seconds from labels to a certified metric on a GPU: the neighbour search and the whole fit.

The rows are Gaussian classes with a falling spectrum (100 classes, float32). Prints

- which lists of a random sample of queries differ from brute force in float64 on the device;
- fits of 1,000,000 x 384 and 100,000 x 768 from labels, with the seconds of their neighbour search
  and the format in which products were formed;
- seconds of each part of the search;
- seconds against the number of rows, with the exponent of a power law.

``--small`` runs all of it by the code for devices on few rows.

    python -m benchmarks gpu_neighbours --sizes 10000 100000 1000000
    python -m benchmarks gpu_neighbours --small --device cpu

Data: simulated
Minutes: 3 on an H200 (estimated); 1 with --small on a processor
Needs: torch, an NVIDIA GPU
"""

import numpy as np
import torch

from conemetric import FrobMetric
from conemetric.neighbours import gpu as device
from conemetric.neighbours.ranks import LabelledRows, SearchQuery, tie_rule

from ..command import add_device, command_parser
from ..measuring import exponent, timed


def classes(n, D, where, n_classes=100, seed=0, dtype=torch.float32):
    """Overlapping Gaussian classes whose variances fall as those of embeddings do."""
    generator = torch.Generator(device=where).manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device=where)

    spread = torch.arange(1, D + 1, device=where) ** -0.4
    y = torch.randint(n_classes, (n,), generator=generator, device=where)
    X = (normal(n, D) + normal(n_classes, D)[y]) * spread
    return X.to(dtype), y.cpu().numpy()


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
    searching = timed(device.search, search_query(X, y), device=where)
    found = searching.result
    state = device.DeviceSearch(search_query(X, y))
    state._factors()
    wrong, lists = wrong_lists(X, y, found)
    print(
        f"{n} x {D}: search {searching.wall:.2f} s; {wrong} of {lists} sampled lists wrong; "
        f"products in {state.format}, "
        f"gamma {state.gamma:.1e}",
        flush=True,
    )
    del found, searching, state
    fitting = timed(FrobMetric().fit, X, y, device=where)
    metric = fitting.result
    certificate = metric.certificate_
    print(
        f"  FrobMetric from labels: {fitting.wall:.2f} s, {len(metric.multipliers_)} triplets, "
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
    preparing = timed(state._factors, device=where)
    times["preparing"] = preparing.wall
    left, right = preparing.result
    rows = slice(0, min(n, max(1, device.MAX_DISTANCES // len(right))))
    tile = device._product(left[rows], right)
    count = 10 + device.SPARE_CANDIDATES
    references = torch.full((n, count), -1, device=where)
    limits = torch.full((n,), np.inf, device=where, dtype=torch.float64)
    select = device._keep_least, tile, 0, rows, device.Candidates(references, limits)
    select[0](*select[1:])  # compile
    minima = tile.unflatten(1, (-1, device.CHUNK)).amin
    blocks = n / rows.stop
    times["products"] = blocks * timed(device._product, left[rows], right, device=where).wall
    times["chunk minima"] = blocks * timed(minima, 2, device=where).wall
    times["selection with these"] = blocks * timed(*select, device=where).wall
    listing = timed(state.candidates, device=where)
    times["all candidates"] = listing.wall
    near_other = listing.result[1]
    times["ranking of impostors"] = timed(state.rank, False, near_other, device=where).wall
    print(f"parts of {n} x {D}: ", ", ".join(f"{name} {s:.2f} s" for name, s in times.items()))


def growth(sizes, D, where):
    times = []
    for n in sizes:
        asked = search_query(*classes(n, D, where))
        times.append(min(timed(device.search, asked, device=where).wall for _ in range(2)))
        print(f"n = {n:8d}, D = {D}: {times[-1]:.3f} s", flush=True)
    if len(sizes) > 1:
        print(f"time grows as n^{exponent(sizes, times):.2f}")


def exactness(where, n, D):
    for dtype in (torch.float32, torch.float64):
        for name, shift in (("plain", 0.0), ("offset", 1e3)):
            X, y = classes(n, D, where, dtype=dtype)
            X = X + shift
            found = device.search(search_query(X, y))
            wrong, lists = wrong_lists(X, y, found, 300)
            print(f"{dtype}, {name}: {wrong} of {lists} lists wrong")


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_device(parser)
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[10_000, 30_000, 100_000, 300_000, 1_000_000]
    )
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args(arguments)
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
