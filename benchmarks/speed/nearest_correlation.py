"""Evaluations and seconds of nearest correlation matrices by the general Frobenius SDP.

G has ones on its diagonal and, as in Qi & Sun (2006), uniform entries in [-1, 1] beside it
("random"), or is a correlation matrix of that order and rank 10 with such entries added a tenth as
large ("noisy"). Their Newton method takes about ten steps, each one eigendecomposition and some
conjugate gradients; an evaluation here is one eigendecomposition.

    python -m benchmarks nearest_correlation --orders 100 200 500 --tol 1e-8

Data: simulated
Minutes: less than 1
"""

import time

import numpy as np
from scipy import sparse

from conemetric import solve_frobenius_sdp

from ..command import command_parser


def instance(order, kind, seed=0):
    rng = np.random.default_rng(seed)
    noise = rng.uniform(-1, 1, (order, order))
    noise = np.triu(noise, 1) + np.triu(noise, 1).T
    if kind == "random":
        return noise + np.eye(order)
    rows = rng.standard_normal((order, 10))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    G = rows @ rows.T + 0.1 * noise
    np.fill_diagonal(G, 1.0)
    return G


def unit_diagonal(order):
    return [sparse.csr_array(([1.0], ([i], [i])), (order, order)) for i in range(order)]


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--orders", type=int, nargs="*", default=[100, 200, 500])
    parser.add_argument("--tol", type=float, default=1e-8)
    options = parser.parse_args(arguments)
    for order in options.orders:
        A = unit_diagonal(order)
        for kind in ("random", "noisy"):
            G = instance(order, kind)
            began = time.perf_counter()
            result = solve_frobenius_sdp(
                -G, A, np.ones(order), sigma=1.0, equality=True, tol=options.tol
            )
            seconds = time.perf_counter() - began
            c = result.certificate
            print(
                f"order {order}, {kind}: {result.history['evaluations'][-1]:.0f} evaluations, "
                f"{seconds:.2f} s, gap {c.relative_gap:.1e}, violation {c.violation:.1e}, "
                f"{c.status}",
                flush=True,
            )
