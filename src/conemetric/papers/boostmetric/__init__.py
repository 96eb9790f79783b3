"""BoostMetric: a metric as a sum of rank-one matrices, by boosting (Shen et al., 2012)."""
