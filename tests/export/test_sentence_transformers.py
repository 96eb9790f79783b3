"""The learned metric as the last module of a tiny sentence-transformers model."""

import json
import shutil

import numpy as np
import pytest

from conemetric import FrobMetric
from conemetric.export import to_sentence_transformers

WORDS = [
    "a",
    "the",
    "cat",
    "dog",
    "sat",
    "ran",
    "on",
    "mat",
    "road",
    "red",
    "blue",
    "big",
    "small",
    "house",
    "tree",
    "bird",
]
TEXTS = [
    f"{article} {size} {animal} {verb}"
    for article in ("a", "the")
    for size in ("big", "small", "red", "blue")
    for animal in ("cat", "dog", "bird", "tree")
    for verb in ("sat", "ran")
]


@pytest.fixture(params=["plain", "normalised", "older"])
def folder(request, tmp_path):
    """A saved model of one random transformer layer and mean pooling."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    base = tmp_path / "base"
    base.mkdir()
    words = ["[PAD]", "[UNK]", *WORDS]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(base)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    transformers.BertModel(config).save_pretrained(base)
    try:
        from sentence_transformers.sentence_transformer import modules as parts
    except ImportError:
        from sentence_transformers import models as parts
    modules = [parts.Transformer(str(base)), parts.Pooling(16)]
    modules += [parts.Normalize()] if request.param == "normalised" else []
    place = tmp_path / "model"
    sentence_transformers.SentenceTransformer(modules=modules, device="cpu").save(str(place))
    if request.param == "older":  # as models of the last years name their modules
        listing = place / "modules.json"
        entries = json.loads(listing.read_text())
        for entry in entries:
            kind = entry["type"].rpartition(".")[2]
            entry["type"] = f"sentence_transformers.models.{kind}"
        listing.write_text(json.dumps(entries))
    return place


def test_the_reloaded_model_gives_the_learned_distances(folder, fresh):
    from sentence_transformers import SentenceTransformer

    X = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    animal = np.arange(len(TEXTS)) // 2 % 4
    metric = FrobMetric(n_components=6).fit(X.astype(np.float64), animal)
    to_sentence_transformers(metric, folder)
    Z, similarity = fresh(f"""
import json
import shutil
from sentence_transformers import SentenceTransformer
model = SentenceTransformer({str(folder)!r}, device="cpu")
Z = model.encode({TEXTS!r})
print(json.dumps([Z.tolist(), model.similarity(Z, Z).tolist()]))
""")
    wanted = metric.transform(X.astype(np.float64))
    size = np.abs(X) @ np.abs(metric.components_.T)
    assert np.shape(Z) == wanted.shape
    # the encoder itself rounds differently from batch to batch, by a few units of its size
    assert (np.abs(Z - wanted) <= 200 * np.finfo(np.float32).eps * (size + 1)).all()
    distances = np.linalg.norm(wanted[:, None] - wanted[None], axis=2)
    assert np.abs(-np.array(similarity) - distances).max() < 1e-3 * distances.max()


def test_a_metric_is_appended_once_and_only_to_a_model(folder, tmp_path):
    metric = FrobMetric().fit(np.random.default_rng(0).normal(size=(20, 16)), np.arange(20) % 2)
    without = shutil.copytree(folder, tmp_path / "copy")
    before = json.loads((folder / "modules.json").read_text())
    to_sentence_transformers(metric, folder)
    after = json.loads((folder / "modules.json").read_text())
    assert after[:-1] == before
    stored = json.loads((folder / after[-1]["path"] / "conemetric.json").read_text())
    assert stored["certificate"]["primal"] == metric.certificate_.primal
    with pytest.raises(ValueError, match="already"):
        to_sentence_transformers(metric, folder)
    other = FrobMetric().fit(np.random.default_rng(0).normal(size=(20, 5)), np.arange(20) % 2)
    with pytest.raises(ValueError, match="16 numbers"):
        to_sentence_transformers(other, without)
    with pytest.raises(FileNotFoundError, match=r"modules\.json"):
        to_sentence_transformers(metric, tmp_path)
