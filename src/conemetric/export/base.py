"""Steps that several exports share."""

import json
from pathlib import Path
from typing import Any

from ..core.warn import warn_user
from ..storage import LearnedMap, atomic_path

__all__ = ["complete_rows_map", "vector_map", "write_json"]


def vector_map(metric: Any, system: str, kind: type[LearnedMap] = LearnedMap) -> Any:
    """``metric`` as one affine map of a ``kind``; refuses one that encodes tables, which ``system``
    cannot.
    """
    metric = kind.from_estimator(metric)
    if metric.encoder is not None:
        raise TypeError(
            f"this metric encodes tables (TableEncoder), and {system} takes vectors: export "
            "LearnedMap.from_estimator(metric).of_features(), and give it rows encoded by "
            "metric.encoder.transform(table)."
        )
    return metric


def complete_rows_map(metric: Any, system: str, kind: type[LearnedMap] = LearnedMap) -> Any:
    """`vector_map` of ``metric``; warns if it fills missing values, which ``system`` cannot."""
    metric = vector_map(metric, system, kind)
    if metric.fill is not None:
        warn_user(
            f"this metric fills missing values, and {system} does not; give it complete rows "
            "(LearnedMetric.from_estimator(metric).fill_missing(X)), or use export.to_onnx, which "
            "fills them."
        )
    return metric


def write_json(path: Path, values: Any) -> None:
    """Write a JSON file, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2), encoding="utf-8")
