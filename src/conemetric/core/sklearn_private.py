"""All private names of scikit-learn that we use, so that a new release can break only this file."""
# ruff: noqa: F401

from sklearn.base import _fit_context as fit_context
from sklearn.manifold._locally_linear import barycenter_weights
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_params
from sklearn.utils._set_output import _get_output_config as get_output_config
from sklearn.utils.graph import _fix_connected_components as fix_connected_components
