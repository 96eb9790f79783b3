"""Features of a data frame: its columns by name, and columns of text as one feature for each of
their categories.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core.fields import expect

__all__ = ["frame_features", "source_columns"]

MOST_NAMED = 5  # missing columns in a message


def source_columns(
    feature_names: Iterable[str], categories: Mapping[str, Iterable[str]] | None
) -> list[str]:
    """The columns that features come from, in order."""
    column_of = {
        f"{column}={category}": column
        for column, values in (categories or {}).items()
        for category in values
    }
    return list(dict.fromkeys(column_of.get(name, name) for name in feature_names))


def frame_features(
    frame: Any, columns: list[str], categories: Mapping[str, Iterable[str]] | None
) -> np.ndarray:
    """These columns of a data frame as numbers, categories as 0 and 1."""
    found = Counter(frame.columns)
    missing = [name for name in columns if name not in found]
    if missing:
        shown = ", ".join(map(repr, missing[:MOST_NAMED]))
        raise ValueError(
            f"X has no column {shown}{', ...' if len(missing) > MOST_NAMED else ''}; the metric "
            "needs all of metric.columns."
        )
    repeated = [name for name in columns if found[name] > 1]
    if repeated:
        raise ValueError(f"X has more than one column {repeated[0]!r}; keep one of them.")
    if not categories:
        return (frame if list(frame.columns) == columns else frame[columns]).to_numpy()
    features = []
    for column in columns:
        values = np.asarray(frame[column])
        if column in categories:
            text = [value if isinstance(value, str) else None for value in values]
            values = np.array(text, dtype=object)
            features += [values == category for category in categories[column]]
        else:
            features.append(values)
    return np.column_stack([np.asarray(values, np.float64) for values in features])


def check_categories(names: list[str] | None, categories: dict[str, list[str]]) -> None:
    """Refuse categories that differ from the names of the features."""
    columns = source_columns(names or (), categories)
    features = []
    for column in columns:
        expanded = [f"{column}={category}" for category in categories.get(column, ())]
        features += expanded if column in categories else [column]
    fits = set(categories) <= set(columns) and features == names
    expect(fits, "categories", categories, "those of feature_names")
