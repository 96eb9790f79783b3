"""DML-eig beside pyDML's DML_eig: processor seconds, and the unsmoothed objective each reaches.

pyDML needs an environment of its own (numpy 1.23, Cython < 3, scipy < 1.12); ``--peer``
names its Python. Its time grows with the square of the points once their outer products
no longer fit in memory (between 200 and 400 rows of 64 features here), so it gets the
first rows, ``--points`` of them, with our local pairs put in the place of its own (all
pairs of equal and of different labels), so that both solve the same program; the fewest
also once as it comes. It returns S where M = R^-T S R^-1 is meant; that is mapped back
here before the objectives are compared.

    CONEMETRIC_DATA=... python benchmarks/dml_eig_pydml.py --peer /path/to/python
    [--data optdigits] [--points 100,200,400]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from papers.datasets import load
from sklearn.decomposition import PCA

from conemetric import DMLEig

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
        given, result, script = (
            str(Path(folder) / name) for name in ("in.npz", "out.npz", "worker.py")
        )
        np.savez(given, **arrays)
        Path(script).write_text(WORKER)
        subprocess.run(
            [python, script, given, result],
            check=True,
            stdout=sys.stderr,
            env={"OMP_NUM_THREADS": "1"},
        )
        with np.load(result) as found:
            return float(found["seconds"]), found["S"]


def ours(X, y):
    """Seconds of `DMLEig` and the fitted metric."""
    began = time.process_time()
    metric = DMLEig().fit(X, y)
    seconds = time.process_time() - began
    print(
        f"  {len(X):5d} rows, {int((~metric.similar_).sum())} dissimilar pairs: conemetric "
        f"{seconds:.2f} s, "
        f"objective {metric.objective_:.4e}, certified gap {metric.certificate_.relative_gap:.1e}",
        flush=True,
    )
    return seconds, metric


def unsmoothed_objective(metric, S, X):
    """What pyDML's S, as the metric R^-T S R^-1 of trace one, makes of the closest
    dissimilar pair.
    """
    values, vectors = np.linalg.eigh(metric.similar_scatter_)
    root = vectors / values**0.5 @ vectors.T
    d = (X[metric.pairs_[:, 0]] - X[metric.pairs_[:, 1]])[~metric.similar_] @ root
    return np.einsum("ri,ij,rj->r", d, S / np.trace(S), d).min()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--data", default="optdigits,mnist")
    parser.add_argument("--points", default="100,200,400")
    args = parser.parse_args()
    sizes = [int(size) for size in args.points.split(",")]
    for name in args.data.split(","):
        data = load(name)
        X, y = data.X[: data.n_train].astype(float), data.y[: data.n_train]
        if name == "mnist":
            X, y = PCA(64, random_state=0).fit_transform(X[:10000]), y[:10000]
        print(f"{name}: {X.shape[0]} x {X.shape[1]}")
        DMLEig(tol=0.5).fit(X[:100], y[:100])  # compile before timing
        whole, _ = ours(X, y)
        for size in sizes:
            seconds, metric = ours(X[:size], y[:size])
            took, S = peer(
                args.peer, X=X[:size], y=y[:size], pairs=metric.pairs_, similar=metric.similar_
            )
            reached = unsmoothed_objective(metric, S, X[:size])
            print(
                f"      pyDML, same pairs: {took:.2f} s ({took / seconds:.0f} times), objective "
                f"{reached:.4e}",
                flush=True,
            )
            if size == sizes[0]:
                own, _ = peer(args.peer, X=X[:size], y=y[:size])
                print(
                    f"      pyDML, all pairs: {own:.2f} s ({own / seconds:.0f} times)", flush=True
                )
        took *= (len(X) / sizes[-1]) ** 2
        print(
            f"  pyDML on all rows, by the square of the rows: {took:.0f} s, {took / whole:.0f} "
            "times (extrapolated)"
        )


if __name__ == "__main__":
    main()
