"""Frey faces by maximum variance unfolding on a device, against the same fit in NumPy.

    python benchmarks/gpu_mvu.py --data DIR [--device cuda] [--n 1965] [--tol 1e-2]
    [--constraint at_most] [--skip-host]

DIR holds frey.npz (array X, 1965 x 560). Prints the time of a fit after a warm-up on
200 images, and checks the objective against the host's float64 fit.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from conemetric import MaximumVarianceUnfolding


def fit(X, tol, device, constraint):
    model = MaximumVarianceUnfolding(n_neighbors=5, tol=tol, constraint=constraint)
    began = time.perf_counter()
    model.fit(X)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    c = model.certificate_
    print(
        f"{device:6} n = {len(X)}: {seconds:7.2f} s   objective {model.objective_:.6e}   gap "
        f"{c.relative_gap:.1e}   "
        f"violation {c.violation:.1e}   {c.status}   "
        f"{model.n_iter_} iterations",
        flush=True,
    )
    return model


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--n", type=int, default=1965)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--constraint", default="at_most", choices=["at_most", "equal"])
    parser.add_argument("--skip-host", action="store_true")
    args = parser.parse_args()
    X = np.load(args.data / "frey.npz")["X"][: args.n].astype(np.float64)
    on_device = torch.as_tensor(X, device=args.device)
    fit(on_device[:200], 0.1, args.device, args.constraint)
    model = fit(on_device, args.tol, args.device, args.constraint)
    if not args.skip_host:
        host = fit(X, args.tol, "host", args.constraint)
        difference = model.objective_ / host.objective_ - 1
        print(f"objective on the device against the host: {difference:+.1e}")
        if abs(difference) > 3 * args.tol:
            raise SystemExit("the two fits disagree")


if __name__ == "__main__":
    main()
