"""Normalisation, alone and fused with an addition and a quantisation."""
