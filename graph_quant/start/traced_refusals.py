"""Lets a refused call raise `Refusal` in traced code too, where Dynamo raises an exception of its own instead.

The exception that leaves a compiled function is both: Dynamo's, which Dynamo's own code and its users catch, and a
Refusal. Its message starts with the rule; Dynamo's explanation follows.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..refusals import Refusal

_WRAPPERS = ("TorchRuntimeError", "BackendCompilerFailed")


def patch(module: ModuleType) -> None:
    """Let the exceptions with which ``torch._dynamo.exc`` wraps others be refusals where they wrap one."""
    for name in _WRAPPERS:
        getattr(module, name).__new__ = _create


def _create(cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    """Create an exception of Dynamo; of a class that is also a Refusal while one is handled."""
    refusal = _find_refusal(sys.exc_info()[1])
    if refusal is None or issubclass(cls, Refusal):
        return RuntimeError.__new__(cls, *args, **kwargs)
    return RuntimeError.__new__(_join(cls, type(refusal)), *args, **kwargs)


def _find_refusal(error: BaseException | None) -> Refusal | None:
    """The refusal that an exception was raised from."""
    while error is not None and not isinstance(error, Refusal):
        error = error.__cause__
    return error


_classes: dict[tuple[type[Any], type[Refusal]], type[Any]] = {}


def _join(wrapper: type[Any], kind: type[Refusal]) -> type[Any]:
    """A class that is both, with Dynamo's constructor."""
    if (wrapper, kind) in _classes:
        return _classes[wrapper, kind]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        refusal = _find_refusal(sys.exc_info()[1])
        wrapper.__init__(self, *args, **kwargs)
        if refusal is not None:
            rule = str(refusal).partition("\n")[0]
            self.args = (f"{rule}\n\n{self}",)
            vars(self).update(vars(refusal))  # the error code of a device, and the note about it

    names = {"__init__": __init__, "__module__": kind.__module__}
    return _classes.setdefault((wrapper, kind), type(kind.__name__, (wrapper, kind), names))
