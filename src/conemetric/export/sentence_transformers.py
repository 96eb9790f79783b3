"""sentence-transformers: the map as the last module of a saved model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from ..storage import LearnedMetric, atomic_path, certificate_values

MARK = "conemetric.json"  # in the folder of a module that this library wrote


def to_sentence_transformers(metric: Any, folder: str | Path) -> None:
    """Append the learned map to a saved sentence-transformers model.

    The model then returns vectors whose Euclidean distance is the learned one, and
    ``model.similarity`` is its negative. Learn the metric from the vectors of the model
    before, ``model.encode(texts)``.

    Parameters
    ----------
    metric : fitted estimator, Pipeline that ends in one, or LearnedMetric
    folder : str or path
        As written by ``model.save(folder)``; changed in place.

    Notes
    -----
    Writes a ``Dense`` module with the identity as activation (its default is tanh) and the
    certificate in ``conemetric.json`` beside it. Needs neither PyTorch nor
    sentence-transformers.
    """
    metric = LearnedMetric.from_estimator(metric).for_vectors("sentence-transformers")
    folder = Path(folder)
    modules = _modules(folder)
    rank, n_features = metric.components.shape
    _check_width(folder, modules, n_features)
    name = f"{len(modules)}_Dense"
    place = folder / name
    place.mkdir()
    arrays = {"linear.weight": metric.components, "linear.bias": metric.offset}
    weights = {key: np.ascontiguousarray(array, np.float32) for key, array in arrays.items()}
    save_file(weights, place / "model.safetensors")
    config = {"in_features": n_features, "out_features": rank, "bias": True}
    identity = {"activation_function": "torch.nn.modules.linear.Identity"}
    _write_json(place / "config.json", config | identity)
    certificate = certificate_values(metric.certificate)
    _write_json(place / MARK, {"method": metric.method, "certificate": certificate})
    settings = folder / "config_sentence_transformers.json"
    known = json.loads(settings.read_text("utf-8")) if settings.exists() else {}
    _write_json(settings, {**known, "similarity_fn_name": "euclidean"})
    newer = any(module["type"].startswith("sentence_transformers.base.") for module in modules)
    kind = f"sentence_transformers.{'base.modules.dense' if newer else 'models'}.Dense"
    entry = {"idx": len(modules), "name": str(len(modules)), "path": name, "type": kind}
    _write_json(folder / "modules.json", [*modules, entry])  # last: now the model changes


def _write_json(path, values):
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2), encoding="utf-8")


def _modules(folder):
    listing = folder / "modules.json"
    if not listing.is_file():
        raise FileNotFoundError(
            f"'{folder}' has no modules.json; give the folder of a saved model, as "
            "SentenceTransformer(...).save(folder) writes it."
        )
    modules = json.loads(listing.read_text("utf-8"))
    if modules and (folder / modules[-1]["path"] / MARK).exists():
        raise ValueError(
            f"the model in '{folder}' already ends in a learned metric; save the model "
            "without it to a new folder."
        )
    return modules


def _check_width(folder, modules, n_features):
    """Refuse a metric of another width than the model's vectors, if its files state that."""
    for module in reversed(modules):
        config = folder / module["path"] / "config.json"
        values = json.loads(config.read_text("utf-8")) if config.exists() else {}
        pooled = values.get("embedding_dimension", values.get("word_embedding_dimension"))
        width = values.get("out_features", pooled)
        if width is None:
            continue
        # pooling in several modes concatenates their vectors
        if n_features != width if "out_features" in values else n_features % width:
            raise ValueError(
                f"the model in '{folder}' returns vectors of {width} numbers, but the metric was "
                f"learned from {n_features}; learn it from the output of model.encode."
            )
        return
