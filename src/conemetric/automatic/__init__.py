"""AutoMetric: which method, found on folds of the training rows."""
