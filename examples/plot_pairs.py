"""
Same or different: learning from pairs
======================================

Pairs of rows, marked same or not, are all that `DMLEig` needs. It learns from half of them
and is evaluated on the other half.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import RocCurveDisplay
from sklearn.preprocessing import StandardScaler

from conemetric import DMLEig
from conemetric.evaluation.verification import distance_score

X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
pairs = np.random.default_rng(0).integers(len(X), size=(1000, 2))
pairs = pairs[pairs[:, 0] != pairs[:, 1]]
same = y[pairs[:, 0]] == y[pairs[:, 1]]

metric = DMLEig().fit(X, pairs=pairs[::2], similar=same[::2])
_, ax = plt.subplots()
for name, each in (("Euclidean", None), ("learned", metric)):
    score = distance_score(each, X, pairs[1::2])  # minus the distance
    RocCurveDisplay.from_predictions(same[1::2], score, name=name, ax=ax)

# %%
# The objective is the distance of the closest pair marked different. The certificate
# bounds how much larger any metric could make it.
print(f"within {metric.certificate_.relative_gap:.1e} of the optimum")
