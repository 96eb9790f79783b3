"""Nearest neighbours, of the same label and of others.

`search` runs a search on the host (`exact`), on a device (`gpu`) or among sparse points (`sparse`),
among all rows or a sample; `ranks` and `ties` define its result; `precomputed` checks a user's.
"""
