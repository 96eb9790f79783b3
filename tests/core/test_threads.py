"""How many threads compiled loops use."""

import threading

from conemetric.core.threads import n_threads, single_threaded, threaded


def test_nested_blocks_keep_a_thread_to_one_core_until_the_outermost_ends(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with single_threaded():
        with single_threaded():
            assert n_threads() == 1
        assert n_threads() == 1
    assert n_threads() == 3


def test_a_block_limits_its_own_thread_only_and_ends_after_an_error(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    found = []
    with single_threaded():
        other = threading.Thread(target=lambda: found.append(n_threads()))
        other.start()
        other.join()
    assert found == [3]
    try:
        single_threaded()(int)("no number")
    except ValueError:
        assert n_threads() == 3


def test_chunks_cover_every_row_once_in_several_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    seen, names = [], set()

    def kernel(start, stop):
        seen.extend(range(start, stop))
        names.add(threading.current_thread().name)

    threaded(kernel, 101, 1 << 30)
    assert sorted(seen) == list(range(101))
    assert all(name.startswith("conemetric") for name in names)
    seen.clear(), names.clear()
    threaded(kernel, 101, 1)  # too little work to wake others
    assert seen == list(range(101)) and names == {threading.current_thread().name}
