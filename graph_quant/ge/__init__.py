"""GE's own facts, stated once: its dtypes, graphs, registrations and kernels."""
