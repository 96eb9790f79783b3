"""FrobMetric against CVXPY with Clarabel on the breast-cancer triplets, the same program in one run.

python benchmarks/frobmetric_conic.py
"""

import time

import cvxpy as cp
import numpy as np
from sklearn.preprocessing import StandardScaler

from conemetric import datasets
from conemetric.constraints import triplets_from_labels
from conemetric.estimators.frobmetric import scaled_C
from conemetric.operators import from_triplets
from conemetric.problems.frobenius_metric import FrobeniusMetric
from conemetric.solvers.dual_quasi_newton import DualQuasiNewton


def conic(X, T, C):
    m, D = len(T), X.shape[1]
    far, near = X[T[:, 0]] - X[T[:, 2]], X[T[:, 0]] - X[T[:, 1]]
    A = (np.einsum("mi,mj->mij", far, far) - np.einsum("mi,mj->mij", near, near)).reshape(m, -1)
    M, slack = cp.Variable((D, D), PSD=True), cp.Variable(m, nonneg=True)
    objective = 0.5 * cp.sum_squares(M) + C / m * cp.sum(slack)
    program = cp.Problem(cp.Minimize(objective), [A @ cp.vec(M, order="C") >= 1 - slack])
    began = time.perf_counter()
    program.solve(solver=cp.CLARABEL)
    return time.perf_counter() - began, program.value


def main():
    data = datasets.load("wdbc")
    X = StandardScaler().fit_transform(data.X.astype(np.float64))
    triplets = triplets_from_labels(X, data.y.astype(np.int64))
    operator = from_triplets(X, triplets)
    C = scaled_C(operator)
    problem = FrobeniusMetric(operator, C)
    DualQuasiNewton().solve(problem)
    theirs, optimum = conic(X, triplets, C)
    print(f"{len(triplets)} triplets, D = {X.shape[1]}, C = {C:.3g}")
    print(f"CVXPY + Clarabel {theirs:8.2f} s   objective {optimum:.8f}")
    for tol in (1e-3, 1e-6):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            c = DualQuasiNewton(tol=tol).solve(problem).certificate
            times.append(time.perf_counter() - began)
        ours = np.median(times)
        print(f"conemetric {tol:5.0e} {ours:8.4f} s   objective {c.primal:.8f}   gap {c.relative_gap:.1e}   {theirs / ours:.0f}x")


if __name__ == "__main__":
    main()
