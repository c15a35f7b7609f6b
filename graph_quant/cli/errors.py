"""What a user did wrong, told in one line."""


class UsageError(Exception):
    """A mistake of the caller's: shown without a traceback, exit code 2."""
