"""FrobMetric on the MNIST task of Shen et al. (2014): 50,000 digits, PCA to 164
dimensions, 450,000 triplets, C = 10.

    python benchmarks/frobmetric_mnist.py [--dtype float64] [--C 10] [--tol 1e-3]

Prints seconds for the neighbour search and the solve, the floor of the solve (each
piece of one evaluation measured, times the number of evaluations), the memory beyond X,
and the 3-NN error on the 10,000 test images. Needs the `mnist` data set.
"""

import argparse
import threading
import time

import numpy as np
from papers import datasets
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.operators import from_triplets
from conemetric.problems.frobenius import FrobeniusProgram
from conemetric.solvers.dual_quasi_newton import DualQuasiNewton


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


class PeakMemory:
    """Largest resident size while the block runs, beyond the size at its start."""

    def __enter__(self):
        self._stop, self._start, self.peak = threading.Event(), resident_mb(), 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(0.01):
            self.peak = max(self.peak, resident_mb() - self._start)

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def median_seconds(function, repeats=7):
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def floor_of_one_evaluation(operator, result):
    """Seconds of: one GEMM X L, one pass over the pairs, one adjoint, one
    eigendecomposition, at the solution's rank.
    """
    L, u = result.primal_point, result.dual_point
    S, Y = operator.adjoint(u), operator.X @ L
    pieces = {
        "X @ L": lambda: operator.X @ L,
        "pairs": lambda: operator.squared_distances(Y),
        "adjoint": lambda: operator.adjoint(u),
        "eigh": lambda: np.linalg.eigh(S),
    }
    return {name: median_seconds(piece) for name, piece in pieces.items()}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--points", type=int, default=50_000)
    options = parser.parse_args()
    data = datasets.load("mnist")
    train, test = slice(0, options.points), slice(60_000, 70_000)
    pca = PCA(164, random_state=0, svd_solver="covariance_eigh").fit(data.X[train] / 255.0)
    X, X_test = (
        pca.transform(data.X[rows] / 255.0).astype(options.dtype) for rows in (train, test)
    )
    y = data.y.astype(np.int64)
    triplets_from_labels(X[:500], y[:500])  # compile the kernels
    began = time.perf_counter()
    triplets = triplets_from_labels(X, y[train])
    print(
        f"neighbours: {time.perf_counter() - began:.1f} s for {len(X)} points, {len(triplets)} "
        "triplets"
    )
    for dtype in (np.float32, np.float64):  # rounds in single precision, certificates in double
        small = from_triplets(X[:500].astype(dtype), triplets[:50] % 500)
        DualQuasiNewton(max_iter=0, tol=1).solve(FrobeniusProgram(small, 1.0))
    with PeakMemory() as memory:
        began = time.perf_counter()
        operator = from_triplets(X, triplets)
        built = time.perf_counter() - began
        began = time.perf_counter()
        result = DualQuasiNewton(tol=options.tol).solve(FrobeniusProgram(operator, options.C))
        seconds = time.perf_counter() - began
    evaluations = int(result.history["evaluations"][-1])
    pieces = floor_of_one_evaluation(operator, result)
    floor = evaluations * sum(pieces.values())
    print(f"operator:   {built:.2f} s, {operator.n_pairs} unique pairs")
    print(
        f"solve:      {seconds:.2f} s, {evaluations} evaluations, certified gap "
        f"{result.certificate.relative_gap:.1e}"
    )
    print(
        f"floor:      {floor:.2f} s "
        f"({', '.join(f'{name} {1e3 * t:.0f} ms' for name, t in pieces.items())})"
    )
    print(f"ratio:      {seconds / floor:.2f} x the floor")
    print(
        f"memory:     {memory.peak:.0f} MB at its peak beyond X (operator, its centred copy of X, "
        "solver)"
    )
    knn = KNeighborsClassifier(3, algorithm="brute")
    for name, L in (("Euclidean", np.eye(164, dtype=X.dtype)), ("FrobMetric", result.primal_point)):
        error = 100 * (1 - knn.fit(X @ L, y[train]).score(X_test @ L, y[test]))
        print(f"3-NN error, {name}: {error:.2f} %")


if __name__ == "__main__":
    main()
