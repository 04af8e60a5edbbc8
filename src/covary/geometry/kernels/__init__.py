"""Tangent kernels of networks.

`empirical.py` has those of a network at its present weights; `infinite.py` closed forms for infinitely wide networks;
`finite.py` networks of finite width drawn from the same prior.
"""
