"""Errors, coverage and rankings on held-out data, and the defaults chosen by them."""
