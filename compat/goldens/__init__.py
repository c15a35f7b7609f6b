"""Compares GE kernels of the host with the goldens that operators' authors publish beside their kernels."""
