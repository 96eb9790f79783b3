"""From a metric to a decision: classes, numbers, and the promises about them."""
