"""Every program of the library as CVXPY states it, solved by Clarabel: what the
solvers are held against.
"""

import cvxpy as cp
import numpy as np
from instances import triplet_matrices
from optima import kept


@kept
def comparison_optimum(Z, L, C, weights=None):
    """The optimum by an interior-point method, in units (objective / (C m), L = F'F)
    that keep its numbers near one.
    """
    weights = np.ones(len(Z)) if weights is None else weights
    values, vectors = np.linalg.eigh(L)
    F = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    m, p = Z.shape
    size = np.sqrt(abs(Z).max())
    w = cp.Variable(p, nonneg=True)
    loss = weights @ cp.pos(1 - Z / size**2 @ w) / m
    objective = 0.5 / (C * m * size**4) * cp.sum_squares(F @ w) + loss
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-11, tol_feas=1e-11)
    return C * m * problem.value


def near_isometry_optimum(problem):
    """Of a program over listed secants."""
    lower = np.where(problem.has_lower, problem.lower, -np.inf)
    upper = np.where(problem.has_upper, problem.upper, np.inf)
    return secant_optimum(problem.operator.V, lower, upper)


@kept
def secant_optimum(V, lower, upper):
    """min tr P over P psd with lower <= v'Pv <= upper for the rows v of V."""
    P = cp.Variable((V.shape[1], V.shape[1]), PSD=True)
    values = cp.sum(cp.multiply(V @ P, V), axis=1)
    below, above = np.isfinite(lower), np.isfinite(upper)
    bounds = [values[below] >= lower[below]] if below.any() else []
    bounds += [values[above] <= upper[above]] if above.any() else []
    return cp.Problem(cp.Minimize(cp.trace(P)), bounds).solve(solver="CLARABEL")


@kept
def semidefinite_optimum(C, A, b, sigma, equality):
    D = len(C)
    X = cp.Variable((D, D), PSD=True)
    values = A.reshape(len(A), -1) @ cp.vec(X, order="C")
    constraints = [values[i] == b[i] if equality[i] else values[i] <= b[i] for i in range(len(A))]
    problem = cp.Problem(
        cp.Minimize(cp.trace(C @ X) + cp.sum_squares(X) / (2 * sigma)), constraints
    )
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


LOSSES = {
    "hinge": lambda margins: cp.pos(1 - margins),
    "squared_hinge": lambda margins: cp.square(cp.pos(1 - margins)) / 2,
    "logistic": lambda margins: cp.logistic(-margins),
}


@kept
def frobenius_optimum(X, T, C, loss="hinge", prior=None, weights=None):
    """The optimum by an interior-point method, in units (M = s N, objective / C) that
    keep its numbers near one.
    """
    A = triplet_matrices(X, T)
    D, m, s = X.shape[1], len(T), min(C, 1.0)
    weights = np.ones(m) if weights is None else weights
    N = cp.Variable((D, D), PSD=True)
    centre = np.zeros((D, D)) if prior is None else prior / s
    margins = s * A.reshape(m, -1) @ cp.vec(N, order="C")
    mean_loss = weights @ LOSSES[loss](margins) / weights.sum()
    problem = cp.Problem(cp.Minimize(0.5 * s**2 / C * cp.sum_squares(N - centre) + mean_loss))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return C * problem.value


@kept
def trace_optimum(X, T, loss, v, largest_trace=None, weights=None):
    """(optimum, trace of M) by CVXPY; None where the program has no minimum."""
    weights = np.ones(len(T)) if weights is None else weights
    M = cp.Variable((X.shape[1], X.shape[1]), PSD=True)
    margins = triplet_matrices(X, T).reshape(len(T), -1) @ cp.vec(M, order="C")
    value = (
        cp.log_sum_exp(np.log(weights) - margins)
        if loss == "exponential"
        else weights @ cp.logistic(-margins)
    )
    limits = [] if largest_trace is None else [cp.trace(M) <= largest_trace]
    problem = cp.Problem(cp.Minimize(value + v * cp.trace(M)), limits)
    problem.solve(solver="CLARABEL")
    return None if M.value is None else [float(problem.value), float(np.trace(M.value))]


@kept
def lmnn_eig_optimum(X, T, gamma, scatter, weights=None):
    weights = np.ones(len(T)) if weights is None else weights
    D, A = X.shape[1], triplet_matrices(X, T)
    s = np.sqrt(np.diag(scatter))
    size = abs(A / np.outer(s, s)).max()
    A, scatter = A / np.outer(s, s) / size, scatter / np.outer(s, s) / size
    M = cp.Variable((D, D), PSD=True)
    loss = weights @ cp.pos(1 - A.reshape(len(T), -1) @ cp.vec(M, order="C"))
    problem = cp.Problem(cp.Minimize((1 - gamma) * loss + gamma * cp.trace(scatter @ M)))
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@kept
def mmmf_optimum(rows, columns, level, shape, thresholds, gamma):
    X = cp.Variable(shape)
    loss = 0
    for number, theta in enumerate(thresholds):
        sign = np.where(level > number, 1.0, -1.0)
        loss = loss + cp.sum(cp.pos(1 - cp.multiply(sign, X[rows, columns] - theta)))
    problem = cp.Problem(cp.Minimize(loss + gamma * cp.normNuc(X)))
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@kept
def soft_margin_optimum(X, T, v, weights=None):
    """The optimum over the span of the rows, as a minimisation, by CVXPY."""
    weights = np.ones(len(T)) if weights is None else weights
    centred = X - X.mean(0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    X = centred @ directions[sizes > 1e-10 * sizes[0]].T
    M, rho, slack = (
        cp.Variable((X.shape[1], X.shape[1]), PSD=True),
        cp.Variable(),
        cp.Variable(len(T), nonneg=True),
    )
    margins = triplet_matrices(X, T).reshape(len(T), -1) @ cp.vec(M, order="C")
    problem = cp.Problem(
        cp.Minimize(v * weights @ slack - rho), [margins >= rho - slack, cp.trace(M) == 1]
    )
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(problem.value)


@kept
def dml_eig_optimum(X, pairs, similar, scatter):
    """max min_r <X_r, M> over <X_S, M> <= 1, as min <X_S, M> over <X_r, M> >= 1 (its
    inverse), scaled to numbers near one.
    """
    d = (X[pairs[:, 0]] - X[pairs[:, 1]])[~similar]
    s = np.sqrt(np.diag(scatter))
    d, scatter = d / s, scatter / np.outer(s, s)
    size = (d**2).sum(1).min()
    M = cp.Variable((X.shape[1], X.shape[1]), PSD=True)
    margins = np.einsum("mi,mj->mij", d, d).reshape(len(d), -1) @ cp.vec(M, order="C")
    problem = cp.Problem(cp.Minimize(cp.trace(scatter @ M)), [margins / size >= 1])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return size / problem.value


@kept
def bilinear_optimum(Q, D, comparisons, C, prior, loss="hinge", weights=None):
    """The optimum by an interior-point method, in units (A(W) of size one, objective / C)
    that keep its numbers near one.
    """
    i, j, k = comparisons.T
    A = np.einsum("mi,mj->mij", Q[i], D[j] - D[k]).reshape(len(comparisons), -1)
    weights = np.ones(len(A)) if weights is None else weights
    s = 1 / (np.linalg.norm(A, axis=1).max() or 1.0)
    V = cp.Variable(A.shape[1])  # W = s V
    mean_loss = weights @ LOSSES[loss](s * A @ V) / weights.sum()
    objective = 0.5 * s**2 / C * cp.sum_squares(V - prior.ravel() / s) + mean_loss
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-10, tol_feas=1e-10)
    return C * problem.value


@kept
def unfolding_optimum(edges, b, n, sigma, equality):
    """In units (K / max b, every row / its b) that keep its numbers near one."""
    K, size = cp.Variable((n, n), PSD=True), b.max()
    B = np.zeros((len(edges), n))
    B[np.arange(len(edges)), edges[:, 0]], B[np.arange(len(edges)), edges[:, 1]] = 1, -1
    row = np.where(b > 0, size / np.where(b > 0, b, 1.0), 1.0)
    lengths = cp.multiply(row, cp.sum(cp.multiply(B @ K, B), axis=1))
    penalty = cp.sum_squares(K) * size / (2 * sigma) if np.isfinite(sigma) else 0
    wanted = np.where(b > 0, 1.0, 0.0)
    kept = lengths == wanted if equality else lengths <= wanted
    program = cp.Problem(cp.Minimize(penalty - cp.trace(K)), [cp.sum(K) == 0, kept])
    return size * program.solve(solver="CLARABEL")
