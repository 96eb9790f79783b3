"""Fits on a real cluster of processes: the same bits on any number of workers, and when
workers or the client are killed on the way.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from conemetric import BoostMetric, DMLEig, FrobMetric, LMNNEig, watching
from conemetric.blocks import Threads

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
psutil = pytest.importorskip("psutil")

pytestmark = pytest.mark.slow
SIZES = (70, 1, 0, 60, 69, 100)


@pytest.fixture(scope="module")
def cluster():
    """One worker process at first; those that are killed are started again."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def set_workers(cluster, client, count):
    cluster.scale(count)
    deadline = time.monotonic() + 300
    while len(client.scheduler_info(n_workers=-1)["workers"]) != count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def two_workers(cluster, client):
    set_workers(cluster, client, 2)
    return client


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, sum(SIZES))
    return rng.normal(size=(len(y), 5)) + 0.7 * y[:, None], y


def partitioned(data):
    X, y = data
    return da.from_array(X, chunks=(SIZES, X.shape[1])), da.from_array(y, chunks=(SIZES,))


def one():
    """It takes 63 iterations."""
    return FrobMetric(C=100.0, tol=1e-6)


def estimators():
    yield FrobMetric(C=10.0, max_iter=4)
    yield LMNNEig(max_iter=2)
    yield DMLEig(max_iter=2)
    yield BoostMetric(max_iter=2)


def bits(metric):
    return metric.components_.tobytes(), metric.certificate_.primal, metric.n_iter_


@pytest.fixture(scope="module")
def undisturbed(data):
    with Threads():
        return bits(one().fit(*partitioned(data)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*meant for")
def test_the_same_bits_on_one_two_and_four_workers_and_in_this_process(data, cluster, client):
    def found(candidates):
        return [bits(metric.fit(*partitioned(data))) for metric in candidates]

    with Threads():
        expected = found(estimators())
    for count in (1, 4):
        set_workers(cluster, client, count)
        assert found(islice(estimators(), 1)) == expected[:1]
    set_workers(cluster, client, 2)
    assert found(estimators()) == expected


def test_a_worker_may_come_late_and_have_nothing_to_do(data, undisturbed, cluster, client):
    set_workers(cluster, client, 1)

    def enlarge(record):
        if record.get("iteration") == 5:
            set_workers(cluster, client, 2)

    with watching(enlarge):
        metric = one().fit(*partitioned(data))
    assert bits(metric) == undisturbed
    X, y = data
    alone = one().fit(da.from_array(X, chunks=-1), da.from_array(y, chunks=-1))
    assert alone.certificate_.primal == pytest.approx(metric.certificate_.primal, rel=1e-8)


class Killer:
    """Kills a worker, by SIGKILL, at some iterations."""

    def __init__(self, client, iterations):
        self.client, self.iterations, self.killed = client, iterations, []

    def __call__(self, record):
        if record.get("iteration") in self.iterations:
            self.killed.append(kill_a_worker(self.client))


def kill_a_worker(client):
    """Of the workers that hold something, one."""
    holders = {worker for workers in client.who_has().values() for worker in workers}
    pids = client.run(os.getpid)
    victim = sorted(holders & set(pids))[0]
    os.kill(pids[victim], signal.SIGKILL)
    return victim


def test_killed_workers_cost_no_bit(data, undisturbed, two_workers):
    """At three moments: early, between two states that are kept, and after the last."""
    killer = Killer(two_workers, (1, 12, 23))
    with watching(killer):
        metric = one().fit(*partitioned(data))
    assert len(set(killer.killed)) == 3
    assert metric.n_iter_ > 23
    assert bits(metric) == undisturbed


def test_nothing_outlives_a_killed_client_and_a_later_process_goes_on(data, undisturbed, tmp_path):
    X, y = data
    np.savez(tmp_path / "data.npz", X=X, y=y)
    script = f"""
        import time
        import dask.array as da, distributed, numpy as np
        from conemetric import FrobMetric, watching

        if __name__ == "__main__":
            data = np.load({str(tmp_path / "data.npz")!r})
            X = da.from_array(data["X"], chunks=({SIZES}, 5))
            y = da.from_array(data["y"], chunks=({SIZES},))
            cluster = distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None
            )
            client = distributed.Client(cluster)
            slowly = lambda record: time.sleep(0.3 if record.get("iteration", 0) > 20 else 0)
            with watching(slowly):
                FrobMetric(C=100.0, tol=1e-6).fit(X, y, checkpoint={str(tmp_path / "state")!r})
    """
    file = tmp_path / "fit.py"
    file.write_text(textwrap.dedent(script))
    process = psutil.Popen([sys.executable, str(file)], stdout=subprocess.DEVNULL)
    written = tmp_path / "state" / "state"
    deadline = time.monotonic() + 300
    while not written.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert written.exists()
    children = process.children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    later = one().fit(*partitioned(data), checkpoint=str(tmp_path / "state"))
    components, primal, n_iter = undisturbed
    assert later.components_.tobytes() == components
    assert later.certificate_.primal == primal
    assert later.n_iter_ == n_iter - 20
    assert_array_equal(later.transform(X), X @ later.components_.T)
