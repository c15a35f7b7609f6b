"""Tensor and expert parallelism for quantised modules."""
