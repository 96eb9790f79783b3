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
    _check_width(folder, modules, metric.components.shape[1])
    name = f"{len(modules)}_Dense"
    _write_module(folder / name, metric)
    _declare_euclidean(folder / "config_sentence_transformers.json")
    entry = {
        "idx": len(modules),
        "name": str(len(modules)),
        "path": name,
        "type": f"sentence_transformers.{_home_of_dense(modules)}.Dense",
    }
    _write_json(folder / "modules.json", [*modules, entry])  # last: now the model changes


def _write_module(place, metric):
    """Write the folder of a ``Dense`` module with the map."""
    rank, n_features = metric.components.shape
    weights = {
        "linear.weight": np.ascontiguousarray(metric.components, np.float32),
        "linear.bias": np.ascontiguousarray(metric.offset, np.float32),
    }
    config = {
        "in_features": n_features,
        "out_features": rank,
        "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    certificate = certificate_values(metric.certificate)
    place.mkdir()
    save_file(weights, place / "model.safetensors")
    _write_json(place / "config.json", config)
    _write_json(place / MARK, {"method": metric.method, "certificate": certificate})


def _declare_euclidean(settings):
    """Let ``model.similarity`` be the negative Euclidean distance; other settings stay."""
    known = {}
    if settings.exists():
        known = json.loads(settings.read_text("utf-8"))
    _write_json(settings, {**known, "similarity_fn_name": "euclidean"})


def _home_of_dense(modules):
    """The module of the library that holds ``Dense``, in the release that saved the model."""
    if any(module["type"].startswith("sentence_transformers.base.") for module in modules):
        return "base.modules.dense"
    return "models"


def _write_json(path, values):
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2), encoding="utf-8")


def _modules(folder):
    listing = folder / "modules.json"
    if not listing.is_file():
        raise FileNotFoundError(
            f"'{folder}' has no modules.json; pass the folder of a saved model, as "
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
    width = None
    fits = True
    for module in reversed(modules):
        config = folder / module["path"] / "config.json"
        if not config.exists():
            continue
        values = json.loads(config.read_text("utf-8"))
        if values.get("out_features") is not None:
            width = values["out_features"]
            fits = n_features == width
            break
        width = values.get("embedding_dimension", values.get("word_embedding_dimension"))
        if width is not None:
            fits = n_features % width == 0  # pooling in several modes concatenates their vectors
            break
    if not fits:
        raise ValueError(
            f"the model in '{folder}' returns vectors of {width} numbers, but the metric was "
            f"learned from {n_features}; learn it from the output of model.encode."
        )
