"""Paper 1: invariance learning by a differentiable Laplace approximation."""
