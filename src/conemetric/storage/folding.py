"""A fitted estimator, or a pipeline that ends in one, folded into one affine map."""

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..core.arrays import to_numpy
from ..estimators.base import MahalanobisMetric
from ..ranking.model import RankingModel
from ..tables import TableEncoder
from .checked import json_values

SKLEARN_METRICS = (NeighborhoodComponentsAnalysis, LinearDiscriminantAnalysis)
METRICS = (MahalanobisMetric, *SKLEARN_METRICS)  # what defines a distance


def folded(estimator: Any) -> tuple[Any, dict[str, Any]]:
    """The estimator itself, the last step of a pipeline, and the parameters of a `LearnedMetric`
    that maps as the whole.
    """
    steps = _steps(estimator)
    learned = steps[-1]
    model = getattr(learned, "model_", None)  # of a ranking
    if not isinstance(learned, METRICS) and not isinstance(model, RankingModel):
        raise TypeError(
            f"The last step is {type(learned).__name__}, which is not a metric of conemetric; "
            "pass a fitted metric, or a pipeline that ends in one."
        )
    names = getattr(steps[0], "feature_names_in_", None)
    preprocessing = [_describe(step) for step in steps[:-1]]
    # neither is affine, so both are kept beside the map: first the encoder, then what fills gaps
    encoder = None
    if isinstance(steps[0], TableEncoder):
        encoder = steps.pop(0)
        check_is_fitted(encoder)
        names = encoder.get_feature_names_out()
    if names is not None:
        names = [str(name) for name in names]
    fill = None
    if isinstance(steps[0], SimpleImputer):
        fill = _fill_values(steps.pop(0))
    parameters = {
        "method": type(learned).__name__,
        "parameters": json_values(learned.get_params(deep=False)),
        "certificate": getattr(learned, "certificate_", None),
        "feature_names": names,
        "preprocessing": preprocessing,
        "fill": fill,
        "encoder": encoder,
        **_map_of(steps),
    }
    if model is not None:
        parameters |= _learned_sum(learned, preprocessing)
    return learned, parameters


def _steps(estimator: Any) -> list[Any]:
    """The estimator, or the steps of a pipeline that do something."""
    if not isinstance(estimator, Pipeline):
        return [estimator]
    return [step for _, step in estimator.steps if step not in (None, "passthrough")]


def _map_of(steps: list[Any]) -> dict[str, Any]:
    """The affine map of these steps, of a kernel the one behind it, with the kernel."""
    coordinates = getattr(steps[-1], "kernel_coordinates_", None)
    if coordinates is None:
        components, offset = _affine_of_all(steps)
        return {"components": components, "offset": offset, "kernel": None}
    kernel = coordinates._map
    if len(steps) > 1:
        kernel = kernel.behind(*_affine_of_all(steps[:-1]))
    components, offset = _affine(steps[-1]._of_columns())
    return {"components": components, "offset": offset, "kernel": kernel}


def _affine_of_all(steps: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """(A, b) of these steps, one after the other."""
    matrix, offset = _affine(steps[0])
    for step in steps[1:]:
        A, b = _affine(step)
        matrix = A @ matrix
        offset = A @ offset + b
    return matrix, offset


def _affine(step: Any) -> tuple[np.ndarray, np.ndarray]:
    """(A, b) with transform(x) = A x + b, in float64."""
    check_is_fitted(step)
    if hasattr(step, "for_vectors"):  # a LearnedMap, of which only the map is kept
        step.for_vectors("a step of a pipeline")
    if isinstance(step, StandardScaler):
        scale = np.ones(step.n_features_in_)
        if step.with_std:
            scale = 1 / step.scale_
        mean = np.zeros(step.n_features_in_)
        if step.with_mean:  # otherwise it may have one all the same
            mean = step.mean_
        return np.diag(scale), -mean * scale
    if isinstance(step, PCA):
        A = step.components_.astype(np.float64)
        if step.whiten:  # transform divides a component without variance by no less
            least = np.finfo(step.explained_variance_.dtype).eps
            A = A / np.maximum(np.sqrt(step.explained_variance_), least)[:, None]
        return A, -A @ step.mean_
    if isinstance(step, SKLEARN_METRICS):
        # by what they do, since one keeps its map in other attributes than the other
        corners = np.concatenate([np.zeros((1, step.n_features_in_)), np.eye(step.n_features_in_)])
        offset, *columns = step.transform(corners)
        return (np.array(columns) - offset).T, offset
    if isinstance(step, MahalanobisMetric):
        step.get_mahalanobis_matrix()  # refuses a metric that is not linear in x
    elif not isinstance(getattr(step, "model_", None), RankingModel):
        raise TypeError(
            f"{type(step).__name__} cannot be folded into a metric file; before a metric use "
            "StandardScaler or PCA, and TableEncoder or SimpleImputer before these, or transform the "
            "data first and save the metric alone."
        )
    A = to_numpy(step.components_).astype(np.float64)
    return A, getattr(step, "offset", np.zeros(len(A)))  # a LearnedMetric has one


def _fill_values(imputer: SimpleImputer) -> np.ndarray:
    """The values by which an imputer replaces missing ones."""
    check_is_fitted(imputer)
    fill = np.asarray(imputer.statistics_, np.float64)
    missing = imputer.missing_values
    replaces_nan = missing != missing
    if not replaces_nan or imputer.add_indicator or not np.isfinite(fill).all():
        raise TypeError(
            f"{imputer} cannot be kept with a metric; use one that replaces NaN, adds no "
            "indicators, and was fitted on columns that are not empty."
        )
    return fill


def _describe(step: Any) -> str:
    """The name of a step, with what matters most of it."""
    name = type(step).__name__
    if isinstance(step, PCA):
        return f"{name}({step.n_components_})"
    if isinstance(step, SimpleImputer):
        return f"{name}({step.strategy})"
    return name


def _learned_sum(learned: Any, preprocessing: list[str]) -> dict[str, Any]:
    """What a ranking adds up, and the map of the documents of one that is no metric."""
    state = learned.model_.state()
    if preprocessing and len(state["weights"]) > 1:
        raise TypeError(
            "weights of scores cannot be kept behind preprocessing; transform the data first and "
            f"save the {type(learned).__name__} alone."
        )
    del state["query_map"]  # the components
    documents = state.pop("document_map")
    if isinstance(learned, METRICS):  # which map documents as queries
        documents = None
    return {"scores": state, "document_components": documents}
