"""Metrics on parameter space.

`metric.py` has `Metric`, the Euclidean and the diagonal one; `fisher.py` those of a model's predictions on data;
`optimizer.py` diagonal ones by the names of weights, such as Adam's.
"""
