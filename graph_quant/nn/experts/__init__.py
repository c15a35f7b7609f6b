"""Quantised experts of a mixture, on npu_grouped_matmul: work is proportional to the rows, not to the experts."""
