"""The stand-in for ``libmy_ops_experimental.so``: nothing of it is needed here, and loading it does nothing."""
