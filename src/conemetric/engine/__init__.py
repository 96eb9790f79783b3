"""What several methods share: the operator, losses, programs, solvers and the certificate."""
