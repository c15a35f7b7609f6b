"""What a graph is: the type of every output, and the idioms in it."""
