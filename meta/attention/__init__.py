"""The records of the attention operators."""
