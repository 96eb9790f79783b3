"""Checks of scikit-learn that an estimator is expected to fail, and why; docs/scikit_learn.md
has the reasons. A class lists its own as ``_expected_failed_checks``.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any

# weights against repeated rows
WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)
# fit to rows X and labels y of several shapes, and use what is learned of them
FIT_AND_USE = (
    "check_complex_data",
    "check_dict_unchanged",
    "check_dtype_object",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_empty_data_messages",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_pipeline_consistency",
)
# fit to rows X and labels y, and look at the estimator or the error
FIT = (
    "check_dont_overwrite_parameters",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit2d_predict1d",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
)
# fit to rows X and labels y, and transform rows
FIT_AND_TRANSFORM = (
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_preserve_dtypes",
)


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """The checks of scikit-learn that an estimator fails, each with the reason why it does not apply;
    all others pass.

    Parameters
    ----------
    estimator : estimator of this library

    Returns
    -------
    dict of str to str
        For the argument of the same name of `sklearn.utils.estimator_checks.check_estimator`;
        ``parametrize_with_checks`` takes the function itself.

    Examples
    --------
    >>> from conemetric import FrobMetric, NuMax, expected_failed_checks
    >>> sorted(expected_failed_checks(FrobMetric()))[0]
    'check_sample_weight_equivalence_on_dense_data'
    >>> expected_failed_checks(NuMax())
    {}
    """
    return dict(getattr(estimator, "_expected_failed_checks", {}))


def because(reason: str, *checks: Iterable[str]) -> dict[str, str]:
    """The same reason for every check of these groups."""
    return dict.fromkeys(chain(*checks), reason)
