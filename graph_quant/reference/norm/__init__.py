"""Normalisation, alone and fused with a sum and a quantisation."""
