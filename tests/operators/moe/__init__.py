"""Tables of the operators of mixtures of experts."""
