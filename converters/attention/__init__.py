"""The lowerings of the attention operators that upstream lowers otherwise than they compute."""
