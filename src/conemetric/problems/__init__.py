"""The convex programs: primal, dual, the primal point that belongs to a dual one, and
the certificate.
"""
