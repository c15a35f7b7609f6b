"""Matrix products of quantised operands."""
