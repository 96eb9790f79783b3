"""Seconds of FrobMetric and of dlib's C++ implementation on the same program.

dlib stops at its default tolerance (largest free gradient below 0.1); we run to the first certified
gap, from 1e-3 down, at which our objective is no higher. dlib is compiled here: that takes a C++
compiler and its headers (Debian: libdlib-dev).

    python -m benchmarks frobmetric_dlib --points 5000 --C 10

Data: the first digits of mnist
Minutes: 2
Needs: a C++ compiler with dlib
"""

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.core import spectral
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets
from conemetric.neighbours.search import neighbours_by_label

from ..command import command_parser
from ..data import load

SOURCE = Path(__file__).with_name("dlib_frobmetric.cpp")


def compiled(folder):
    """The program that calls dlib, or the end with one sentence where it does not compile."""
    program = Path(folder) / "dlib_frobmetric"
    flags = ["-O3", "-march=native", "-Wno-psabi", "-w", "-DNDEBUG"]
    libraries = ["-ldlib", "-llapack", "-lblas"]
    command = ["c++", *flags, str(SOURCE), "-o", str(program), *libraries]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit("frobmetric_dlib needs a C++ compiler called c++.") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            "frobmetric_dlib needs dlib, LAPACK and BLAS to compile (Debian: libdlib-dev); "
            f"c++ says: {error.stderr.strip().splitlines()[0]}"
        ) from None
    return program


def run_dlib(program, X, y, C, folder):
    """Seconds of training, and the learned metric M."""
    targets, impostors = neighbours_by_label(X, y, 3, 3)
    rows = np.hstack([np.arange(len(X))[:, None], targets, impostors]).astype(np.int64)
    with open(Path(folder) / "input", "wb") as file:
        np.array([*X.shape, len(rows), 3], dtype=np.int64).tofile(file)
        X.tofile(file)
        rows.tofile(file)
    printed = subprocess.run(
        [program, Path(folder) / "input", Path(folder) / "M", str(C)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(printed.stdout), np.fromfile(Path(folder) / "M").reshape(X.shape[1], -1)


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--points", type=int, default=5000)
    parser.add_argument("--C", type=float, default=10.0)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        measure(options, compiled(folder), folder)


def measure(options, program, folder):
    data = load("mnist")
    X = PCA(164, random_state=0).fit_transform(data.X[: options.points].astype(np.float64) / 255)
    y = data.y[: options.points].astype(np.int64)
    operator = from_triplets(X, triplets_from_labels(X, y))
    problem = FrobeniusProgram(operator, options.C)
    DualQuasiNewton(tol=1.0).solve(problem)  # compile the kernels
    theirs, M = run_dlib(program, X, y, options.C, folder)
    objective = problem.primal_at(spectral.factor(M), operator.forward(M))[0]
    print(f"{operator.n_constraints} triplets, D = {X.shape[1]}, C = {options.C:g}")
    print(f"dlib       {theirs:8.2f} s   objective {objective:.6f}")
    for tol in (1e-3, 3e-4, 1e-4, 1e-5, 1e-6):
        began = time.perf_counter()
        c = DualQuasiNewton(tol=tol).solve(problem).certificate
        ours = time.perf_counter() - began
        print(
            f"conemetric {ours:8.2f} s   objective {c.primal:.6f}   certified gap "
            f"{c.relative_gap:.1e}   "
            f"{theirs / ours:.0f} times faster, at {c.primal / objective:.6f} of dlib's objective"
        )
        if c.primal <= objective:
            break
