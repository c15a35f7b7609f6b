"""What keeps a graph from being verified, in one line."""


class VerificationError(RuntimeError):
    """Nothing could be compared."""
