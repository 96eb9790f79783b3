"""DML-eig beside pyDML's DML_eig: processor seconds, and the unsmoothed objective each reaches.

pyDML needs an environment of its own (numpy 1.23, Cython < 3, scipy < 1.12); ``--peer`` names its Python. Its time grows with
the square of the points, so it gets ``--points`` rows, once as it comes (all pairs of equal and of different labels) and once
with our local pairs put in their place, where both solve the same program; the whole set is extrapolated. It returns S where
M = R^-T S R^-1 is meant; that is mapped back here before the objectives are compared.

    CONEMETRIC_DATA=... python benchmarks/dml_eig_pydml.py --peer /path/to/python [--data optdigits] [--points 150]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from conemetric import DMLEig
from conemetric.datasets import load

WORKER = """
import sys, time
import numpy as np
from dml import DML_eig
data = np.load(sys.argv[1])
X, y = data["X"], data["y"]
if "pairs" in data:  # the same constraints as ours; its loop over pairs loses the first of each point
    def local(y):
        return tuple(
            np.concatenate([p[np.unique(p[:, 0], return_index=True)[1]], p]) for p in (data["pairs"][data["similar"]],
            data["pairs"][~data["similar"]])
        )
    DML_eig._label_to_similarity_set = staticmethod(local)
began = time.process_time()
model = DML_eig().fit(X, y)
np.savez(sys.argv[2], S=model.metric(), seconds=time.process_time() - began)
"""


def peer(python, **arrays):
    """Seconds and S of pyDML in its own interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        given, result, script = (str(Path(folder) / name) for name in ("in.npz", "out.npz", "worker.py"))
        np.savez(given, **arrays)
        Path(script).write_text(WORKER)
        subprocess.run([python, script, given, result], check=True, stdout=sys.stderr, env={})
        with np.load(result) as found:
            return float(found["seconds"]), found["S"]


def ours(X, y, rows):
    """Seconds of `DMLEig` and the fitted metric."""
    began = time.process_time()
    metric = DMLEig().fit(X, y)
    seconds = time.process_time() - began
    n_pairs, gap = int((~metric.similar_).sum()), metric.certificate_.relative_gap
    print(
        f"  conemetric, {rows:9s} {seconds:8.2f} s   objective {metric.objective_:.4e}   certified gap {gap:.1e}, {n_pairs} pairs"
    )
    return seconds, metric


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--data", default="optdigits,mnist")
    parser.add_argument("--points", type=int, default=150)
    args = parser.parse_args()
    for name in args.data.split(","):
        data = load(name)
        X, y = data.X[: data.n_train].astype(float), data.y[: data.n_train]
        if name == "mnist":
            X, y = PCA(64, random_state=0).fit_transform(X[:10000]), y[:10000]
        print(f"{name}: {X.shape[0]} x {X.shape[1]}")
        DMLEig(tol=0.5).fit(X[:100], y[:100])  # compile before timing
        whole, _ = ours(X, y, "all rows")
        X, y, n_rows = X[: args.points], y[: args.points], len(X)
        seconds, metric = ours(X, y, f"{args.points} rows")
        took, S = peer(args.peer, X=X, y=y, pairs=metric.pairs_, similar=metric.similar_)
        values, vectors = np.linalg.eigh(metric.similar_scatter_)
        root = vectors / values**0.5 @ vectors.T
        M = root @ (S / np.trace(S)) @ root
        d = X[metric.pairs_[:, 0]] - X[metric.pairs_[:, 1]]
        reached = np.einsum("ri,ij,rj->r", d, M, d)[~metric.similar_].min()
        print(f"  pyDML, local pairs  {took:10.2f} s   objective {reached:.4e}   {took / seconds:.0f}x our time", flush=True)
        took, _ = peer(args.peer, X=X, y=y)
        print(f"  pyDML, all pairs    {took:10.2f} s   {took / seconds:.0f}x our time", flush=True)
        took *= (n_rows / args.points) ** 2
        print(f"  pyDML, all rows: about {took:.0f} s (extrapolated), {took / whole:.0f}x our time", flush=True)


if __name__ == "__main__":
    main()
