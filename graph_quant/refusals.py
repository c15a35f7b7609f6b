"""The one exception by which this package refuses a call that the documents or the device refuse."""


class Refusal(RuntimeError):
    """A call that may not be made; the message names the operator, the rule, the argument and the value."""
