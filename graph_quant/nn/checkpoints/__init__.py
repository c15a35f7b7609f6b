"""Readers of quantised checkpoints: msModelSlim, compressed-tensors, torchao."""
