"""Measures of a metric: k-NN error, pair verification, thresholds with a promise, retrieval,
isometry, preserved neighbourhoods, and statistics that compare methods.
"""
