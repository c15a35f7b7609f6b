"""The exception for calls that the documents or the device refuse."""

# The codes of aclnn for a call that its own checks refuse, and for one that the tiling of the kernel refuses.
PARAM_INVALID, TILING_ERROR = 161002, 561002
_NAMES = {PARAM_INVALID: "ACLNN_ERR_PARAM_INVALID", TILING_ERROR: "ACLNN_ERR_INNER_TILING_ERROR"}


class Refusal(RuntimeError):
    """A call that breaks a rule; the message names the operator, the rule, the argument and the value.

    Attributes:
        code: The error code with which a device refuses the call.
    """

    def __init__(self, message: str, code: int = PARAM_INVALID) -> None:
        super().__init__(message)
        self.code = code
        if hasattr(self, "add_note"):  # since Python 3.11; shown below the message of a traceback
            self.add_note(f"a device refuses this call with error code {code}, {_NAMES[code]}")


class UndescribedError(Refusal):
    """A call of an operator that this package does not describe for the chip in use."""
