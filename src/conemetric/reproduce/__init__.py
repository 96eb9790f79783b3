"""The papers' tables and figures as runnable definitions, ours beside the published numbers.

>>> from conemetric.reproduce import list_experiments
>>> "frobmetric-table1" in {experiment.name for experiment in list_experiments()}
True
"""

from . import (
    embeddings,
    faces,
    fastqp,
    isometry,
    keel,
    knn_tables,
    measurements,
    runner,
    toys,
    unfolding,
)

MODULES = (knn_tables, faces, toys, unfolding, fastqp, isometry, measurements, embeddings, keel)
EXPERIMENTS = {experiment.name: experiment for module in MODULES for experiment in module.TABLES}


def list_experiments():
    """All experiments, in the order of the papers."""
    return list(EXPERIMENTS.values())


def get_experiment(name):
    """An experiment by name."""
    if name not in EXPERIMENTS:
        raise ValueError(
            f"name={name!r} is not a known experiment; known: {', '.join(EXPERIMENTS)}."
        )
    return EXPERIMENTS[name]


def run_experiment(
    name, runs=None, datasets=None, out="reproduce", n_jobs=1, callback=None, methods=None
):
    """Measure an experiment, or go on with one that was interrupted, and return ours
    beside the published numbers.

    Parameters
    ----------
    name : str
    runs : int, default=None
        Runs per cell; None means as many as the paper has.
    datasets, methods : sequence of str, default=None
        Restrict to these; None means all.
    out : path, default="reproduce"
        Folder for NAME.jsonl (one line per finished cell; what is there is not measured
        again), NAME.csv and NAME.png.
    n_jobs : int, default=1
        Processes, which share the cores between them; -1 means one per core.
    callback : callable, default=None
        Called after each cell with its record, and ``done`` and ``total``.

    Returns
    -------
    ResultTable

    Examples
    --------
    >>> import tempfile
    >>> from conemetric.reproduce import run_experiment
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = run_experiment("frobmetric-table1", runs=1, datasets=["iris"], methods=["Euclidean"], out=folder)
    >>> [(row.dataset, row.method, row.published) for row in table.rows]
    [('iris', 'Euclidean', 3.64)]
    """
    return runner.run(get_experiment(name), runs, datasets, methods, out, n_jobs, callback)
