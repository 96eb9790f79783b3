"""Seconds, memory and error of FrobMetric on the MNIST task of Shen et al. (2014).

The task: 50,000 digits in 164 principal components, 450,000 triplets, C = 10. Prints seconds of the
neighbour search and of the solve, the floor of the solve (each piece of one evaluation measured,
times the number of evaluations), the memory beyond X, and the 3-NN error on the 10,000 test images.

    python -m benchmarks frobmetric_mnist
    python -m benchmarks frobmetric_mnist --C 1000 --tol 1e-6 --dtype float32

Data: mnist
Minutes: 2
"""

import threading

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets

from ..command import command_parser
from ..data import mnist_components
from ..measuring import median_seconds, timed


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


class PeakMemory:
    """Largest resident size while the block runs, beyond the size at its start."""

    def __enter__(self):
        self._stop = threading.Event()
        self._start = resident_mb()
        self.peak = 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.wait(0.01):
            self.peak = max(self.peak, resident_mb() - self._start)

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def floor_of_one_evaluation(operator, result):
    """Seconds of: one GEMM X L, one pass over the pairs, one adjoint, one
    eigendecomposition, at the solution's rank.
    """
    L = result.primal_point
    u = result.dual_point
    S = operator.adjoint(u)
    Y = operator.X @ L
    pieces = {
        "X @ L": lambda: operator.X @ L,
        "pairs": lambda: operator.squared_distances(Y),
        "adjoint": lambda: operator.adjoint(u),
        "eigh": lambda: np.linalg.eigh(S),
    }
    return {name: median_seconds(piece, 7) for name, piece in pieces.items()}


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--points", type=int, default=50_000)
    options = parser.parse_args(arguments)
    X, y, X_test, y_test = mnist_components(options.points, dtype=options.dtype)
    triplets_from_labels(X[:500], y[:500])  # compile the kernels
    searching = timed(triplets_from_labels, X, y)
    triplets = searching.result
    print(f"neighbours: {searching.wall:.1f} s for {len(X)} points, {len(triplets)} triplets")
    for dtype in (np.float32, np.float64):  # rounds in single precision, certificates in double
        small = from_triplets(X[:500].astype(dtype), triplets[:50] % 500)
        DualQuasiNewton(max_iter=0, tol=1).solve(FrobeniusProgram(small, 1.0))
    with PeakMemory() as memory:
        building = timed(from_triplets, X, triplets)
        operator = building.result
        problem = FrobeniusProgram(operator, options.C)
        solving = timed(DualQuasiNewton(tol=options.tol).solve, problem)
        result = solving.result
    evaluations = int(result.history["evaluations"][-1])
    pieces = floor_of_one_evaluation(operator, result)
    floor = evaluations * sum(pieces.values())
    print(f"operator:   {building.wall:.2f} s, {operator.n_pairs} unique pairs")
    print(
        f"solve:      {solving.wall:.2f} s, {evaluations} evaluations, certified gap "
        f"{result.certificate.relative_gap:.1e}"
    )
    print(
        f"floor:      {floor:.2f} s "
        f"({', '.join(f'{name} {1e3 * t:.0f} ms' for name, t in pieces.items())})"
    )
    print(f"ratio:      {solving.wall / floor:.2f} x the floor")
    print(
        f"memory:     {memory.peak:.0f} MB at its peak beyond X (operator, its centred copy of X, "
        "solver)"
    )
    knn = KNeighborsClassifier(3, algorithm="brute")
    for name, L in (("Euclidean", np.eye(164, dtype=X.dtype)), ("FrobMetric", result.primal_point)):
        error = 100 * (1 - knn.fit(X @ L, y).score(X_test @ L, y_test))
        print(f"3-NN error, {name}: {error:.2f} %")
