"""Tables with a column of each kind, for tests of encoding."""

import numpy as np
import pandas as pd
import polars as pl

N = 120


def columns(seed):
    """One column of each kind, with gaps; as lists."""
    rng = np.random.default_rng(seed)

    def gaps(values, share):
        return [None if rng.random() < share else value for value in values]

    hours = rng.integers(0, 3 * 365 * 24, N)
    return {
        "number": gaps(rng.normal(50, 9, N).tolist(), 0.2),
        "skewed": np.exp(2 * rng.normal(size=N)).tolist(),
        "tiny": (rng.normal(size=N) * 1e-200).tolist(),
        "huge": (rng.normal(size=N) * 1e100).tolist(),
        "far": (1e9 + rng.normal(size=N)).tolist(),
        "count": rng.poisson(3, N).tolist(),
        "word": gaps(rng.choice(list("abcdefg"), N, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.03, 0.02]), 0.1),
        "yes": rng.choice(["yes", "no"], N, p=[0.2, 0.8]).tolist(),
        "flag": (rng.random(N) < 0.3).tolist(),
        "numeral": gaps(rng.choice(["3", "4", "7.5"], N).tolist(), 0.05),
        "time": [np.datetime64("2020-01-01") + np.timedelta64(int(h), "h") for h in hours],
        "day": [f"{d:02d}.03.2021" for d in rng.integers(1, 29, N)],
    }


def frame_pandas(data):
    return pd.DataFrame(data)


def frame_polars(data):
    return pl.DataFrame(
        {
            name: [v.item() if isinstance(v, np.generic) else v for v in values]
            for name, values in data.items()
        }
    )


def array_of_objects(data):
    out = np.empty((N, len(data)), object)
    for i, values in enumerate(data.values()):
        out[:, i] = values
    return out
