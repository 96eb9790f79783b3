"""Steps that several exports share."""

import json
from pathlib import Path
from typing import Any

from ..core.warn import warn_user
from ..storage import LearnedMap, LearnedMetric, atomic_path


def vector_map(
    metric: Any, system: str, kind: type[LearnedMap] = LearnedMetric, *, fills: bool = False
) -> Any:
    """``metric`` as one affine map of a ``kind``; refuses one that encodes tables, and warns of one
    that fills missing values, unless ``system`` ``fills`` them too.
    """
    metric = kind.from_estimator(metric)
    if metric.encoder is not None:
        raise TypeError(
            f"this metric encodes tables (TableEncoder), and {system} takes vectors: export "
            "LearnedMap.from_estimator(metric).of_features(), and give it rows encoded by "
            "metric.encoder.transform(table)."
        )
    if metric.fill is not None and not fills:
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
