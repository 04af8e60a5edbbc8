"""Tangent kernels: empirical, of finite and of infinite networks."""
