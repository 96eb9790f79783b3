"""How time and memory grow with rows, features and workers."""
