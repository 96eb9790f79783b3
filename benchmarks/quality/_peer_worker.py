"""Fits one method on every data file of a folder and says what it took; runs inside the
peer's own environment.

    python _peer_worker.py METHOD FOLDER BUDGET

FOLDER holds data0.npz, data1.npz ... with X and y; the linear maps go to
components0.npz ... beside them. Appends one JSON line per fit to results.jsonl in
FOLDER: seconds of processor time over all threads (which a busy machine distorts least)
and peak memory in MiB above what the process holds when the fit begins, imports and
data included. Every method is first fitted once on 60 rows, so that nobody pays for
compilation. No fit begins after BUDGET processor seconds spent in fits, or gets more
than 8 GiB.
"""

import contextlib
import ctypes
import gc
import json
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np

MEMORY = 8  # GiB of address space, so that a method that needs more fails instead of the machine


def geometric_mean(X, y, seed=0):
    """GMML (Zadeh, Hosseini & Sra 2016), in closed form: the geometric mean of S^-1 and
    D of random pairs; returns L'.
    """
    rng = np.random.default_rng(seed)
    n_classes = len(np.unique(y))
    a, b = rng.integers(0, len(X), (2, 40 * n_classes * (n_classes - 1) + 1000))
    difference, same = X[a] - X[b], y[a] == y[b]
    S, D = (difference[mask].T @ difference[mask] for mask in (same, ~same))
    S = S + 1e-6 * np.trace(S) / len(S) * np.eye(len(S))
    values, vectors = np.linalg.eigh(S)
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    values, vectors = np.linalg.eigh(root @ D @ root)
    M = inverse @ (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T @ inverse
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.clip(values, 0, None))).T


# BoostMetric as in its paper, where the number of iterations is what regularises
BOOSTING = {"v": 1e-7, "loss": "exponential", "solver": "stagewise", "max_iter": 500}


def conemetric(name, **parameters):
    def fit(X, y):
        import conemetric as package

        return getattr(package, name)(**parameters).fit(X, y).components_

    return fit


def metric_learn(name, **parameters):
    def fit(X, y):
        import metric_learn as package

        return getattr(package, name)(**parameters).fit(X, y).components_

    return fit


def pydml(name, **parameters):
    def fit(X, y):
        import dml

        model = getattr(dml, name)(**parameters)
        model.fit(X, y)
        return model.transformer()

    return fit


def scikit_learn(module, name, **parameters):
    def fit(X, y):
        import importlib

        model = getattr(importlib.import_module("sklearn." + module), name)(**parameters).fit(X, y)
        return model.scalings_.T if name == "LinearDiscriminantAnalysis" else model.components_

    return fit


METHODS = {
    "Euclidean": lambda X, y: np.eye(X.shape[1]),
    "PCA": scikit_learn("decomposition", "PCA", n_components=0.95),
    "LDA": scikit_learn("discriminant_analysis", "LinearDiscriminantAnalysis"),
    "GMML": geometric_mean,
    "scikit-learn NCA": scikit_learn("neighbors", "NeighborhoodComponentsAnalysis", random_state=0),
    "FrobMetric": conemetric("FrobMetric"),
    "FrobMetric, gap 0.1": conemetric("FrobMetric", tol=0.1),
    "BoostMetric": conemetric("BoostMetric", **BOOSTING),
    "BoostMetric, 50 rounds": conemetric("BoostMetric", **{**BOOSTING, "max_iter": 50}),
    "DMLEig": conemetric("DMLEig"),
    "LMNNEig": conemetric("LMNNEig"),
    "metric-learn LMNN": metric_learn("LMNN", n_neighbors=3),
    "metric-learn ITML": metric_learn("ITML_Supervised", random_state=0),
    "metric-learn SCML": metric_learn("SCML_Supervised", random_state=0),
    "metric-learn NCA": metric_learn("NCA", random_state=0),
    "metric-learn LSML": metric_learn("LSML_Supervised", random_state=0),
    "metric-learn MMC": metric_learn("MMC_Supervised", random_state=0),
    # its default balance of 0.5 makes the graphical lasso indefinite; 1e-5 is the
    # largest power of ten that runs on all sets here
    "metric-learn SDML": metric_learn("SDML_Supervised", random_state=0, balance_param=1e-5),
    "pyDML LMNN": pydml("LMNN"),
    "pyDML NCA": pydml("NCA"),
    "pyDML LSI": pydml("LSI", supervised=True),
    "pyDML DMLMJ": pydml("DMLMJ"),
}


def memory(key):
    """MiB of a line of /proc/self/status: VmRSS now, or VmHWM, the most since the last
    call of `save_state`.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


def settle():
    """Give back what is free, and let the high-water mark of memory begin anew; says
    where it begins.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def measure(fit, X, y, path):
    """The record of one fit, whose linear map goes to ``path``."""
    before = settle()
    began = time.process_time()
    try:
        components = fit(X, y)
    except MemoryError:
        return {"failure": f"needs more than {MEMORY} GiB"}
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}"}
    record = {"seconds": time.process_time() - began, "peak_mib": memory("VmHWM") - before}
    np.savez(path, components=np.asarray(components, dtype=np.float64))
    return record


def main():
    method, folder, budget = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY * 2**30, MEMORY * 2**30))
    warnings.simplefilter("ignore")
    fit = METHODS[method]
    spent = 0.0
    with (folder / "results.jsonl").open("w", buffering=1) as results:
        for run in range(len(list(folder.glob("data*.npz")))):
            with np.load(folder / f"data{run}.npz") as data:
                X, y = data["X"], data["y"]
            if run == 0:
                rows = np.concatenate(
                    [np.flatnonzero(y == label)[:12] for label in np.unique(y)[:5]]
                )
                with contextlib.suppress(Exception):  # what fails on 60 rows may do on all
                    fit(X[rows], y[rows])
                results.write('{"ready": true}\n')
            record = measure(fit, X, y, folder / f"components{run}.npz")
            results.write(json.dumps(record) + "\n")
            spent += record.get("seconds", budget)
            if spent >= budget:
                break


if __name__ == "__main__":
    main()
