"""Processes killed (SIGKILL) while they save a metric over another: the file is the old
one or the new one, whole, and the next save works.
"""

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from conemetric import LearnedMetric, load_metric, save_metric

from .outcome import Outcome

SIZES = (3, 300)  # features of the metrics that take turns
LATEST = 0.03  # seconds after which a saver is killed


def metric(size):
    return LearnedMetric(np.full((size, size), float(size)), np.zeros(size))


def save_for_ever(path, ready):
    ready.set()
    while True:
        for size in SIZES:
            save_metric(path, metric(size))


def attempt(number):
    """Kill number ``number``."""
    rng = np.random.default_rng(number)
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metric"
        save_metric(path, metric(SIZES[0]))
        ready = context.Event()
        saver = context.Process(target=save_for_ever, args=(path, ready))
        saver.start()
        ready.wait()
        time.sleep(rng.uniform(0, LATEST))
        os.kill(saver.pid, signal.SIGKILL)
        saver.join()
        faults = []
        try:
            found = load_metric(path)
            size = found.n_features_in_
            if size not in SIZES or not (found.components == size).all():
                faults.append("the file is neither of the two metrics")
            left = len(list(Path(folder).iterdir())) - 1
            save_metric(path, metric(SIZES[1]))
            load_metric(path)
        except Exception as error:
            return Outcome(number, "a kill", type(error).__name__, faults=(repr(error)[:200],))
        ended = f"{size} features" + (", an unfinished file beside" if left else "")
        return Outcome(number, "a kill", ended, faults=tuple(faults))
