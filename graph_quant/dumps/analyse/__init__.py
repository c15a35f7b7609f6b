"""What can be asked of a graph: its cost, its faults, what changed, what it computes."""
