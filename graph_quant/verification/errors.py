"""The error of verification."""


class VerificationError(RuntimeError):
    """Nothing could be compared."""
