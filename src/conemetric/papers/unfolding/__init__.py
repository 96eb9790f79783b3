"""MaximumVarianceUnfolding: unfolding of a graph of neighbours by its dual."""
