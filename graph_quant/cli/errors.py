"""Errors of usage."""


class UsageError(Exception):
    """An error of usage: printed in one line without a traceback, exit code 2."""
