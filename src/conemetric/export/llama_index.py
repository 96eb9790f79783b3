"""LlamaIndex: a linear adapter of the query."""

import json
from pathlib import Path

import numpy as np

from ..core.extras import require
from ..storage import LearnedMetric, atomic_path


def to_llama_index(metric, folder: str | Path, *, inner_product: bool = False) -> None:
    """Write a linear adapter for LlamaIndex's ``AdapterEmbeddingModel``.

    LlamaIndex maps the query alone, by a square matrix W, and leaves documents as they
    are: it ranks by (W q)'d. A learned *distance* (q - d)'M(q - d) cannot be had that
    way, because d'Md differs from document to document. What can is the learned
    *inner product* of mapped vectors, by W = M (and a bias where the metric centres its
    input); it ranks as the distance does where d'Md is the same for all documents.

    Parameters
    ----------
    metric : fitted estimator, Pipeline that ends in one, or LearnedMetric
        A `QueryAdapter` is such an adapter, and is written as it is.
    folder : str or path
        Made if it is not there.
    inner_product : bool, default=False
        Write the learned inner product. Without it a metric is refused: use
        `to_sentence_transformers`, which maps both sides, and give that model to
        LlamaIndex (``HuggingFaceEmbedding(folder)``).

    Notes
    -----
    LlamaIndex's stores compare by the cosine: give documents of norm one, or it divides
    by their norms.
    """
    torch = require("torch", "torch")
    metric = LearnedMetric.from_estimator(metric)
    if not (inner_product or metric.maps_queries_only):
        raise ValueError(
            "LlamaIndex adapts the query alone, which cannot give a learned distance; use "
            "inner_product=True for the learned inner product q'Md, or to_sentence_transformers, "
            "which maps both sides."
        )
    A = metric.components
    weights = {"linear.weight": A.T @ A, "linear.bias": A.T @ metric.offset}
    if metric.maps_queries_only:
        if len(A) < A.shape[1]:
            raise ValueError(
                f"The adapter maps {A.shape[1]} features to {len(A)}, and LlamaIndex leaves "
                "documents as they are; fit QueryAdapter without n_components."
            )
        weights = {"linear.weight": A, "linear.bias": metric.offset}
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    with atomic_path(place / "pytorch_model.bin") as temporary:
        torch.save(
            {name: torch.as_tensor(W.astype(np.float32)) for name, W in weights.items()}, temporary
        )
    with atomic_path(place / "config.json") as temporary:
        config = {"in_features": A.shape[1], "out_features": A.shape[1], "bias": True}
        temporary.write_text(json.dumps(config), encoding="utf-8")
