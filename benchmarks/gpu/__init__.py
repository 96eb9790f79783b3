"""How long fits on a GPU take, and whether their results are those of NumPy."""
