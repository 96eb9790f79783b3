"""Processor seconds of FrobMetric and of CVXPY with Clarabel and SCS on the same program.

The program is that of the 5,121 triplets of breast cancer. Every solver's M, projected onto the
semidefinite cone, goes through the same objective; SCS stops at its default tolerance of 1e-4.

    python -m benchmarks frobmetric_conic --solvers CLARABEL SCS --rows 569

Data: wdbc
Minutes: 2
Needs: cvxpy
"""

import time

import cvxpy as cp
import numpy as np
from sklearn.preprocessing import StandardScaler

from conemetric.constraints.in_memory import triplets_from_labels
from conemetric.core import spectral
from conemetric.engine.dual_quasi_newton import DualQuasiNewton
from conemetric.engine.frobenius import FrobeniusProgram
from conemetric.engine.operators import from_triplets
from conemetric.estimators.scale import scaled_C

from ..command import command_parser
from ..data import load


def conic(X, T, C, solver):
    m = len(T)
    D = X.shape[1]
    far = X[T[:, 0]] - X[T[:, 2]]
    near = X[T[:, 0]] - X[T[:, 1]]
    A = (np.einsum("mi,mj->mij", far, far) - np.einsum("mi,mj->mij", near, near)).reshape(m, -1)
    M = cp.Variable((D, D), PSD=True)
    slack = cp.Variable(m, nonneg=True)
    objective = 0.5 * cp.sum_squares(M) + C / m * cp.sum(slack)
    program = cp.Problem(cp.Minimize(objective), [A @ cp.vec(M, order="C") >= 1 - slack])
    began = time.process_time()
    program.solve(solver=solver)
    seconds = time.process_time() - began
    values, vectors = np.linalg.eigh((M.value + M.value.T) / 2)
    return seconds, (vectors * np.maximum(values, 0)) @ vectors.T


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--solvers", nargs="*", default=["CLARABEL", "SCS"])
    parser.add_argument("--rows", type=int, default=569)
    options = parser.parse_args(arguments)
    data = load("wdbc")
    X = StandardScaler().fit_transform(data.X.astype(np.float64))[: options.rows]
    triplets = triplets_from_labels(X, data.y[: options.rows].astype(np.int64))
    operator = from_triplets(X, triplets)
    C = scaled_C(operator, operator.n_features)
    problem = FrobeniusProgram(operator, C)
    DualQuasiNewton().solve(problem)  # compile the kernels
    print(f"{len(triplets)} triplets, D = {X.shape[1]}, C = {C:.3g}")
    ours = {}
    for tol in (1e-3, 1e-6):
        times = []
        for _ in range(5):
            began = time.process_time()
            c = DualQuasiNewton(tol=tol).solve(problem).certificate
            times.append(time.process_time() - began)
        ours[tol] = np.median(times), c.primal
        print(
            f"conemetric {tol:5.0e}   {ours[tol][0]:8.4f} s   objective {c.primal:.8f}   "
            f"certified gap {c.relative_gap:.1e}"
        )
    for solver in options.solvers:
        theirs, M = conic(X, triplets, C, solver)
        objective = problem.primal_at(spectral.factor(M), operator.forward(M))[0]
        print(f"CVXPY + {solver:9s}  {theirs:8.2f} s   objective {objective:.8f}", end="")
        for tol, (seconds, primal) in ours.items():
            print(
                f"   {theirs / seconds:.0f} x ours at {tol:.0e}, whose objective is "
                f"{primal / objective:.6f} of it",
                end="",
            )
        print(flush=True)
