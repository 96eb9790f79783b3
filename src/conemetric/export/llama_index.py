"""LlamaIndex: the map as a linear adapter of the query."""

from pathlib import Path
from typing import Any

import numpy as np

from ..core.extras import require
from ..storage import LearnedAdapter, atomic_path
from .base import complete_rows_map, write_json

__all__ = ["to_llama_index"]


def to_llama_index(metric: Any, folder: str | Path, *, inner_product: bool = False) -> None:
    """Write a linear adapter for LlamaIndex's ``AdapterEmbeddingModel``.

    LlamaIndex maps only the query, by a square matrix W, and ranks by (W q)'d. This cannot
    express a learned *distance* (q - d)'M(q - d), because d'Md differs from document to
    document. It can express the learned *inner product* of mapped vectors, by W = M (and a
    bias if the metric centres its input), which ranks as the distance does if d'Md is the
    same for all documents.

    Parameters
    ----------
    metric : fitted estimator, Pipeline that ends in one, or LearnedMetric
        A `QueryAdapter` is such an adapter and needs no ``inner_product``.
    folder : str or path
        Created if it does not exist.
    inner_product : bool, default=False
        Write the learned inner product. For the distance use `to_sentence_transformers`,
        which maps both sides, and give that model to LlamaIndex
        (``HuggingFaceEmbedding(folder)``).

    Notes
    -----
    LlamaIndex's stores compare by cosine: normalise the documents, or it divides by their
    norms.
    """
    torch = require("torch", "torch")
    metric = complete_rows_map(metric, "LlamaIndex")
    adapter = isinstance(metric, LearnedAdapter)
    if not (inner_product or adapter):
        raise ValueError(
            "LlamaIndex adapts only the query, which cannot give a learned distance; use "
            "inner_product=True for the learned inner product q'Md, or to_sentence_transformers, "
            "which maps both sides."
        )
    A = metric.components
    weights = {"linear.weight": A.T @ A, "linear.bias": A.T @ metric.offset}
    if adapter:
        if len(A) < A.shape[1]:
            raise ValueError(
                f"The adapter maps {A.shape[1]} features to {len(A)}, but LlamaIndex does not map "
                "documents; fit QueryAdapter without n_components."
            )
        weights = {"linear.weight": A, "linear.bias": metric.offset}
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(folder / "pytorch_model.bin") as temporary:
        torch.save(
            {name: torch.as_tensor(W.astype(np.float32)) for name, W in weights.items()}, temporary
        )
    config = {"in_features": A.shape[1], "out_features": A.shape[1], "bias": True}
    write_json(folder / "config.json", config)
