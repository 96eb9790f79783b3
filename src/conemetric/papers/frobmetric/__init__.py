"""FrobMetric: a Frobenius-regularised metric by its dual (Shen, Kim and Wang, 2011).

The program is `engine.frobenius` and the solver `engine.dual_quasi_newton`, since metrics for
rankings and relative comparisons use them too.
"""
