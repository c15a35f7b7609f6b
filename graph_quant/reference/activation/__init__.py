"""Activations, losses and dropout, some fused with a quantisation."""
