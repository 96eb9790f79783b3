"""Every table and figure, by the name that ``python -m benchmarks.papers`` knows it by."""

from . import (
    deciding,
    embeddings,
    faces,
    fastqp,
    isometry,
    keel,
    knn_tables,
    measurements,
    mixed,
    regression,
    toys,
    unfolding,
)

MODULES = (
    *(knn_tables, faces, toys, unfolding, fastqp, isometry, measurements, embeddings),
    *(keel, deciding, regression, mixed),
)
EXPERIMENTS = {experiment.name: experiment for module in MODULES for experiment in module.TABLES}
