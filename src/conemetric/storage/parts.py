"""The parts of a stored map that are objects themselves, and how they must fit each other."""

from collections.abc import Mapping
from typing import Any

from ..core.fields import FieldError, Sizes, expect
from ..engine.certificate import Certificate
from ..engine.kernel_map import KernelMap
from ..evaluation.thresholds import ThresholdPromise
from ..ranking.model import RankingModel
from ..tables import TableEncoder

# fields that are objects with states of their own
PARTS: dict[str, Any] = {"certificate": Certificate, "encoder": TableEncoder, "kernel": KernelMap}


def check_sizes(given: Mapping[str, Any], sizes: Sizes) -> None:
    """Refuse parts that do not fit the features of the components, or of the kernel before them."""
    n_features = sizes["columns"]
    kernel = given["kernel"]
    if kernel is not None:
        n_coordinates = kernel.projection.shape[1]
        expect(n_coordinates == n_features, "kernel.projection", n_coordinates, "as components")
        n_features = kernel.n_features
    known = sizes.get("features", n_features)
    expect(known == n_features, "feature_names or fill", known, f"one for each of {n_features}")
    encoder = given["encoder"]
    if encoder is not None:
        names = given["feature_names"]
        fits = encoder.get_feature_names_out().tolist() == names
        expect(fits, "feature_names", names, "those of the encoder")


def check_scores(scores: dict[str, Any] | None) -> None:
    """Refuse scores of which no ranking can be made."""
    if scores is None:
        return
    # the maps are the components, which are stored once
    maps = {"query_map": None, "document_map": None}
    expect(not maps.keys() & scores.keys(), "scores", scores, "no maps")
    RankingModel.from_state({**scores, **maps}, "scores")


def promise_of(stored: dict[str, Any]) -> ThresholdPromise:
    """The promise of a threshold; refuses one that cannot be true."""
    try:
        return ThresholdPromise(**stored)
    except (TypeError, ValueError, OverflowError) as error:
        expected = f"one that can be true: {error}"
        raise FieldError("threshold_promise", stored, expected) from error
