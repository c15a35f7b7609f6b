"""General tensor operators: matmuls, casts, views, reductions and element-wise functions."""
