"""Tangent kernels of networks.

`finite.py` has those of a network at its weights, which may be drawn from a prior; `infinite.py` closed forms for
infinitely wide networks.
"""
