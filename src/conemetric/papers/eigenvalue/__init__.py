"""DMLEig, LMNNEig and matrix factorisation: eigenvalue optimisation (Ying and Li, 2012)."""
