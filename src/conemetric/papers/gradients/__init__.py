"""GradientMetric: a metric from the gradients of a fitted regression."""
