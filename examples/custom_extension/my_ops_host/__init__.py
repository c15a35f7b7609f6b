"""What graph_quant imports where the compiled half of my_ops is missing. No other code imports it."""
