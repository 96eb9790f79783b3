"""Nearest neighbours, of the same label and of others.

`query` defines a search. It runs on the host (`exact`), on a device (`gpu`) and among sparse points
(`sparse`), among all rows or a sample (`sampling`); `precomputed` checks a user's neighbours.
"""
