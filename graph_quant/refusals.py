"""The exception for calls that the documents or the device refuse."""


class Refusal(RuntimeError):
    """A call that breaks a rule; the message names the operator, the rule, the argument and the value."""
