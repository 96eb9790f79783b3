"""The convex programs: primal, dual, the map from dual to primal points, and the certificate."""
