"""Metrics on parameter space."""
