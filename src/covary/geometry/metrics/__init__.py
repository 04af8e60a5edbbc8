"""Metrics on parameter space.

`metric.py` has `Metric`, the Euclidean one and diagonal ones, such as Adam's; `fisher.py` those of predictions.
"""
