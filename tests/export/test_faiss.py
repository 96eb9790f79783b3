"""FAISS returns the learned distances, from its files, in a new process."""

import numpy as np
import pytest

from conemetric.export import to_faiss

faiss = pytest.importorskip("faiss")


@pytest.mark.cases(2)
def test_the_transform_is_the_learned_map(case, tmp_path, fresh):
    faiss.write_VectorTransform(to_faiss(case.metric), str(tmp_path / "map.faiss"))
    np.save(tmp_path / "X.npy", case.X)
    mapped = fresh(f"""
import faiss, json, numpy as np
transform = faiss.read_VectorTransform({str(tmp_path / "map.faiss")!r})
assert transform.is_trained
print(json.dumps(transform.apply(np.load({str(tmp_path / "X.npy")!r})).tolist()))
""")
    assert (np.abs(mapped - case.Z) <= case.slack).all()


@pytest.mark.parametrize("kind", ["Flat", "HNSW16,Flat", "IVF4,Flat"])
@pytest.mark.costly
def test_an_index_searches_by_the_learned_distance(case, kind, tmp_path, fresh):
    rank = len(case.learned.components)
    index = to_faiss(case.metric, faiss.index_factory(rank, kind))
    index.train(case.X)
    index.add(case.X)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    np.save(tmp_path / "X.npy", case.X)
    squared, found = fresh(f"""
import faiss, json, numpy as np
index = faiss.read_index({str(tmp_path / "index.faiss")!r})
squared, found = index.search(np.load({str(tmp_path / "X.npy")!r}), 5)
print(json.dumps([squared.tolist(), found.tolist()]))
""")
    found = np.array(found)
    rows = np.arange(len(found))[:, None]
    learned = np.linalg.norm(case.Z[rows] - case.Z[found], axis=2)
    # of a difference of two mapped rows, each off by its slack, and of summing its squares
    slack = np.linalg.norm(case.slack[rows] + case.slack[found], axis=2)
    rounding = 4 * rank * np.finfo(np.float32).eps
    assert (np.abs(np.sqrt(squared) - learned) <= slack + rounding * learned + 1e-6).all()
    if kind == "Flat":
        nearest = np.sort(np.linalg.norm(case.Z[:, None] - case.Z[None], axis=2), axis=1)[:, :5]
        assert (np.abs(learned - nearest) <= 2 * (slack + rounding * learned) + 1e-6).all()


def test_an_index_of_other_size_or_comparison_is_refused(case):
    rank = len(case.learned.components)
    with pytest.raises(ValueError, match=f"pass an index of {rank}"):
        to_faiss(case.metric, faiss.IndexFlatL2(rank + 1))
    with pytest.raises(ValueError, match="by L2"):
        to_faiss(case.metric, faiss.IndexFlatIP(rank))
