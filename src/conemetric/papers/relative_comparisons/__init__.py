"""RelativeComparisons: metrics from comparisons of relative distance by FastQP."""
