"""Seconds of maximum variance unfolding of the Frey faces on a GPU, beside the same fit in NumPy.

Prints the time of a fit after a warm-up on 200 images, and checks the objective against the float64
fit of the host.

    python -m benchmarks gpu_mvu --tol 1e-2
    python -m benchmarks gpu_mvu --constraint equal --skip-host

Data: frey
Minutes: 1 on an H200 with 16 cores (estimated)
Needs: torch, an NVIDIA GPU
"""

import torch

from conemetric import MaximumVarianceUnfolding

from ..command import add_device, command_parser
from ..data import load
from ..measuring import timed


def fit(X, tol, device, constraint):
    model = MaximumVarianceUnfolding(n_neighbors=5, tol=tol, constraint=constraint)
    seconds = timed(model.fit, X, device=device).wall
    c = model.certificate_
    print(
        f"{device:6} n = {len(X)}: {seconds:7.2f} s   objective {model.objective_:.6e}   gap "
        f"{c.relative_gap:.1e}   "
        f"violation {c.violation:.1e}   {c.status}   "
        f"{model.n_iter_} iterations",
        flush=True,
    )
    return model


def main(arguments):
    parser = command_parser(__doc__, __name__)
    add_device(parser)
    parser.add_argument("--n", type=int, default=1965)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--constraint", default="at_most", choices=["at_most", "equal"])
    parser.add_argument("--skip-host", action="store_true")
    options = parser.parse_args(arguments)
    X = load("frey").X[: options.n]
    on_device = torch.as_tensor(X, device=options.device)
    fit(on_device[:200], 0.1, options.device, options.constraint)
    model = fit(on_device, options.tol, options.device, options.constraint)
    if not options.skip_host:
        host = fit(X, options.tol, "host", options.constraint)
        difference = model.objective_ / host.objective_ - 1
        print(f"objective on the device against the host: {difference:+.1e}")
        if abs(difference) > 3 * options.tol:
            raise SystemExit("the two fits disagree")
