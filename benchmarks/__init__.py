"""Benchmarks: ``python -m benchmarks --list`` describes them, ``python -m benchmarks NAME`` runs one."""
