"""How a metric is judged: k-NN error, pair verification, retrieval, and the statistics
that compare methods.
"""
