"""NuMax: linear embeddings that keep the lengths of secants (Hegde et al., 2015)."""
