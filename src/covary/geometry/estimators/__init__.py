"""Matrix-free estimates, each with its error.

`operators.py` has matrices known by their products, the Hessian and the Gauss–Newton matrix of a network among them;
`trace.py` their trace; `krylov.py` their largest eigenvalues and their log-determinant; `estimate.py` the estimates.
"""
