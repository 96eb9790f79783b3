"""
Unfolding a Swiss roll
======================

Maximum variance unfolding against Isomap, locally linear embedding and principal
components: the embeddings, the share of neighbours each keeps (Q_nx), and whether it tears
the roll or flattens it (B_nx). The roll is scaled to unit variance, so sigma = 1e5, the
value of Shen et al. (2014), is about ten times the attainable variance.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_swiss_roll
from sklearn.decomposition import PCA
from sklearn.manifold import Isomap, LocallyLinearEmbedding

from conemetric import MaximumVarianceUnfolding
from conemetric.evaluation.manifold import neighbourhood_quality

N_POINTS, N_NEIGHBORS, SIGMA = 300, 6, 1e5


def embeddings(X):
    """Method name to embedding of X."""
    unfolding = {"constraint": "equal", "tol": 1e-2}
    return {
        "unfolding": MaximumVarianceUnfolding(
            N_NEIGHBORS, sigma=SIGMA, **unfolding
        ).fit_transform(X),
        "unfolding, at most": MaximumVarianceUnfolding(
            N_NEIGHBORS, sigma=SIGMA, tol=1e-2
        ).fit_transform(X),
        "Isomap": Isomap(n_neighbors=N_NEIGHBORS).fit_transform(X),
        "LLE": LocallyLinearEmbedding(
            n_neighbors=N_NEIGHBORS, eigen_solver="dense"
        ).fit_transform(X)
        * len(X) ** 0.5,
        "PCA": PCA(2).fit_transform(X),
    }


def main():
    X, colour = make_swiss_roll(N_POINTS, random_state=0)
    X = X / X.std(axis=0).mean()
    figure, axes = plt.subplots(2, 4, figsize=(15, 7))
    (kept, tears), panels = axes[:, 3], axes[:, :3].ravel()
    print(f"{'':18}  mean Q     AUC  mean B")
    for panel, (method, embedding) in zip(panels, embeddings(X).items(), strict=False):
        quality = neighbourhood_quality(X, embedding)
        row = (quality.Q_nx.mean(), quality.auc, quality.B_nx.mean())
        print(f"{method:18}" + "".join(f"{value:8.3f}" for value in row))
        panel.scatter(*embedding.T, c=colour, s=6, cmap="viridis")
        panel.set_title(method)
        panel.set_aspect("equal")
        kept.plot(quality.K, quality.Q_nx, label=method)
        tears.plot(quality.K, quality.B_nx)
    panels[-1].set_axis_off()
    kept.set(xlabel="K", ylabel="Q_nx")
    tears.set(xlabel="K", ylabel="B_nx")
    kept.legend(fontsize=7)
    figure.suptitle(
        f"Swiss roll: {len(X)} points, k = {N_NEIGHBORS}, sigma = {SIGMA:g}"
    )
    figure.tight_layout()


if __name__ == "__main__":
    main()
    plt.show()
