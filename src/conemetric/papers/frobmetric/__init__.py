"""FrobMetric: the Frobenius-regularised large-margin metric of Shen et al. (2014).

The program is `engine.frobenius` and the solver `engine.dual_quasi_newton`, since metrics for
rankings and relative comparisons use them too.
"""
