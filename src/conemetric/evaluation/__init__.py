"""Measures of a metric, and statistics that compare methods."""
