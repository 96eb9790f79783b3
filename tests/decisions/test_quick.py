from sklearn.utils.estimator_checks import parametrize_with_checks

from conemetric import MetricClassifier, MetricRegressor


@parametrize_with_checks(
    [MetricClassifier(metric=None, random_state=0), MetricRegressor(metric=None, random_state=0)]
)
def test_checks(estimator, check):
    check(estimator)
