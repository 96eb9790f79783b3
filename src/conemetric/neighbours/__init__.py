"""Nearest neighbours, of the same label and of others.

`search` runs a search among all rows or a sample, on the host (`host`, with its `kernels`), on a device
(`gpu`) or among sparse points (`sparse`), all of them exact; `ranks` and `ties` define its result;
`precomputed` checks what a user passes.
"""
