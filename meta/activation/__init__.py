"""Gated activations, and those fused with a quantisation."""
