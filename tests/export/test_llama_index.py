"""LlamaIndex's adapter gives the learned inner product; a distance is refused."""

import numpy as np
import pytest

from conemetric import QueryAdapter
from conemetric.export import to_llama_index

pytest.importorskip("torch")


def test_a_distance_is_refused_with_both_ways_out(case, tmp_path):
    with pytest.raises(ValueError, match=r"inner_product=True.*to_sentence_transformers"):
        to_llama_index(case.metric, tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_the_file_is_the_state_of_a_square_linear_layer(case, tmp_path, fresh):
    to_llama_index(case.metric, tmp_path / "adapter", inner_product=True)
    np.save(tmp_path / "X.npy", case.X)
    scores = fresh(f"""
import json, numpy as np, torch
folder = {str(tmp_path / "adapter")!r}
config = json.load(open(folder + "/config.json"))
layer = torch.nn.Linear(config["in_features"], config["out_features"], config["bias"])
state = torch.load(folder + "/pytorch_model.bin", weights_only=True)
layer.load_state_dict({{name.removeprefix("linear."): value for name, value in state.items()}})
X = torch.as_tensor(np.load({str(tmp_path / "X.npy")!r}))
print(json.dumps((layer(X) @ X.T).tolist()))
""")
    check_scores(case, np.array(scores))


def test_the_real_adapter_ranks_by_the_learned_inner_product(case, tmp_path):
    adapter = pytest.importorskip("llama_index.embeddings.adapter")
    core = pytest.importorskip("llama_index.core")
    to_llama_index(case.metric, tmp_path / "adapter", inner_product=True)

    class Rows(core.base.embeddings.base.BaseEmbedding):
        """Row numbers as texts."""

        def _get_query_embedding(self, query):
            return case.X[int(query)].tolist()

        _get_text_embedding = _get_query_embedding

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

    model = adapter.LinearAdapterEmbeddingModel(Rows(), str(tmp_path / "adapter"), device="cpu")
    rows = np.arange(0, len(case.X), 20)
    queries = np.array([model.get_query_embedding(str(row)) for row in rows])
    documents = np.array([model.get_text_embedding(str(row)) for row in range(len(case.X))])
    np.testing.assert_array_equal(documents, case.X.astype(float))
    check_scores(case, queries @ documents.T, rows)


def test_a_query_adapter_is_written_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    documents = rng.normal(size=(40, 5))
    queries = np.roll(documents, 1, axis=1)
    judged = np.column_stack([np.arange(40), np.arange(40)])
    adapter = QueryAdapter(1.0, random_state=0).fit(queries, documents, judged)
    to_llama_index(adapter, tmp_path / "adapter")
    torch = pytest.importorskip("torch")
    state = torch.load(tmp_path / "adapter" / "pytorch_model.bin", weights_only=True)
    mapped = queries.astype(np.float32) @ state["linear.weight"].numpy().T
    np.testing.assert_allclose(mapped, adapter.transform_queries(queries), atol=1e-5)
    assert not state["linear.bias"].any()
    short = QueryAdapter(1.0, n_components=2, random_state=0).fit(queries, documents, judged)
    with pytest.raises(ValueError, match="without n_components"):
        to_llama_index(short, tmp_path / "short")


def check_scores(case, scores, rows=slice(None)):
    """Scores and inner products of mapped rows differ by a constant for each query."""
    A, b = case.learned.components, case.learned.offset
    X = case.X.astype(np.float64)
    wanted = case.Z[rows] @ case.Z.T - (X @ A.T @ b + b @ b)[rows, None]
    size = np.abs(X[rows]) @ np.abs(A.T) @ np.abs(A) @ np.abs(X.T)
    size += np.abs(X) @ np.abs(A.T) @ np.abs(b)
    assert (np.abs(scores - wanted) <= 40 * np.finfo(np.float32).eps * size).all()
