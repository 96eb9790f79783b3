"""Seconds of DML-eig here and in pyDML, and the objective that each reaches without smoothing.

pyDML needs an environment of its own (numpy 1.23, Cython < 3, scipy < 1.12), which
``python -m benchmarks peers --methods "pyDML LMNN"`` makes in ``peer-environments/pyDML``; ``--peer``
names its Python. Its time grows with the square of the points once their outer products no longer
fit in memory (between 200 and 400 rows of 64 features here), so it gets the first rows, ``--points``
of them, with our local pairs put in the place of its own (all pairs of equal and of different
labels): both then solve the same program. The fewest rows it also gets as it comes. pyDML returns S
where M = R^-T S R^-1 is meant; that is mapped back here before the objectives are compared. Times
are processor seconds on one thread.

    python -m benchmarks dml_eig_pydml --peer peer-environments/pyDML/bin/python
    python -m benchmarks dml_eig_pydml --peer PYTHON --sets optdigits --points 100 200 400

Data: optdigits, mnist
Minutes: 10 (estimated)
Needs: a Python with pyDML
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from conemetric import DMLEig

from ..command import command_parser
from ..data import load

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


def check_peer(parser, python):
    """End with one sentence where this Python has no pyDML."""
    try:
        subprocess.run([python, "-c", "import dml"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        parser.error(f"--peer {python} cannot import pyDML's package dml; name a Python that can")


def peer(python, **arrays):
    """Seconds and S of pyDML in its own interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        problem, result = (str(Path(folder) / name) for name in ("in.npz", "out.npz"))
        np.savez(problem, **arrays)
        subprocess.run(
            [python, "-c", WORKER, problem, result],
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


def main(arguments):
    parser = command_parser(__doc__, __name__)
    parser.add_argument("--peer", required=True, help="a Python that has pyDML")
    parser.add_argument("--sets", nargs="+", default=["optdigits", "mnist"])
    parser.add_argument("--points", type=int, nargs="+", default=[100, 200, 400])
    options = parser.parse_args(arguments)
    check_peer(parser, options.peer)
    for name in options.sets:
        data = load(name)
        X, y = data.X[: data.n_train].astype(float), data.y[: data.n_train]
        if name == "mnist":
            X, y = PCA(64, random_state=0).fit_transform(X[:10000]), y[:10000]
        print(f"{name}: {X.shape[0]} x {X.shape[1]}")
        DMLEig(tol=0.5).fit(X[:100], y[:100])  # compile before timing
        whole, _ = ours(X, y)
        for size in options.points:
            seconds, metric = ours(X[:size], y[:size])
            took, S = peer(
                options.peer, X=X[:size], y=y[:size], pairs=metric.pairs_, similar=metric.similar_
            )
            reached = unsmoothed_objective(metric, S, X[:size])
            print(
                f"      pyDML, same pairs: {took:.2f} s ({took / seconds:.0f} times), objective "
                f"{reached:.4e}",
                flush=True,
            )
            if size == options.points[0]:
                own, _ = peer(options.peer, X=X[:size], y=y[:size])
                print(
                    f"      pyDML, all pairs: {own:.2f} s ({own / seconds:.0f} times)", flush=True
                )
        took *= (len(X) / options.points[-1]) ** 2
        print(
            f"  pyDML on all rows, by the square of the rows: {took:.0f} s, {took / whole:.0f} "
            "times (extrapolated)"
        )
