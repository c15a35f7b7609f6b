"""Rules of collectives, and of operators that fuse communication with computation."""
