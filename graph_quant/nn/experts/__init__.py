"""Quantised experts of a mixture, on npu_grouped_matmul: the work depends on the number of rows, not of experts."""
