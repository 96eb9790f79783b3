"""First-order algorithms, one per file, under one outer loop (`base`)."""
