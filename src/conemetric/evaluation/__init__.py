"""Measures of a metric: k-NN error, pair verification, retrieval, isometry, neighbourhoods
kept, and statistics that compare methods.
"""
