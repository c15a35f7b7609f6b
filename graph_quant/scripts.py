"""Runs a user's script or function as Python would, apart from other code, and tells in one line why it stops."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

from torch._dynamo.exc import TorchDynamoException

from .refusals import Refusal

NAMES = ("model", "inputs")


class NoScriptError(Exception):
    """A file that Python cannot compile."""


@contextmanager
def as_python_would(path: str, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The namespace of a ``__main__``, with ``sys.argv`` and ``sys.path`` as under ``python script.py arguments``.

    What a script changes of the process is put back: the folder it works in, and where it prints to.
    """
    main, argv, paths = sys.modules["__main__"], sys.argv, list(sys.path)
    folder, streams = Path.cwd(), (sys.stdout, sys.stderr)
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        yield vars(module)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, paths
        sys.stdout, sys.stderr = streams
        os.chdir(folder)


def run(path: str, namespace: dict[str, Any], error: type[Exception]) -> None:
    """Run the script in ``namespace``; an ``error`` goes through, anything else that it raises is told as one."""
    try:
        source = Path(path).read_bytes()
    except OSError as reason:
        raise error(f"{path}: {reason.strerror}") from reason
    try:
        code = compile(source, path, "exec")
    except (SyntaxError, ValueError) as reason:
        raise error(f"{path}: it is no Python script: {in_one_line(path, reason)}") from NoScriptError(str(reason))
    try:
        with _leaving():
            exec(code, namespace)
    except SystemExit as left:
        if left.code not in (None, 0):
            raise error(f"{path}: it ended with exit code {left.code}") from left
    except (error, BrokenPipeError):
        raise
    except Exception as reason:
        raise error(f"{path}: it stops: {in_one_line(path, reason)}") from reason


@contextmanager
def _leaving() -> Iterator[None]:
    """Have ``os._exit`` end the script and not the command that runs it, which has its findings still to tell."""
    leave, process = os._exit, os.getpid()

    def left(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        print("graph-quant: a thread of the script ended the process", file=sys.stderr, flush=True)
        leave(status or 2)

    os._exit = left
    try:
        yield
    finally:
        os._exit = leave


def model_of(
    path: str, namespace: Mapping[str, Any], model: str | None, inputs: str | None, error: type[Exception]
) -> tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]:
    """The module or function of the script, and what to call it with."""
    function = _defined(path, namespace, model or "model", error)
    if not callable(function):
        kind = type(function).__name__
        raise error(f"{path}: {model or 'model'} must be a module or a function, got {kind}")
    given = _defined(path, namespace, inputs or "inputs", error)
    if callable(given):
        try:
            given = given()
        except Exception as reason:
            raise error(f"{path}: {inputs or 'inputs'} stops: {in_one_line(path, reason)}") from reason
    return function, *_arguments(given)


def _defined(path: str, namespace: Mapping[str, Any], name: str, error: type[Exception]) -> Any:
    if name not in namespace:
        raise error(f"{path}: it defines no `{name}`")
    return namespace[name]


def _arguments(given: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Positional and named arguments: given as a tuple or list, a dict, or one value."""
    if isinstance(given, Mapping):
        return (), given
    return (given, {}) if isinstance(given, (tuple, list)) else ((given,), {})


def in_one_line(path: str, error: BaseException) -> str:
    """The rule that was broken, without what Dynamo wraps around it, and the line of the script that it came from."""
    behind = list(causes(error))
    frames = [frame for each in behind for frame in _frames(each) if frame.filename == path]
    # Dynamo's own errors tell that tracing failed, and not why.
    own = [each for each in behind if not isinstance(each, TorchDynamoException)]
    told = next((each for each in behind if isinstance(each, Refusal)), own[0] if own else error)
    text = next((line.strip() for line in str(told).splitlines() if line.strip()), "")
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    kind = "" if isinstance(told, Refusal) else f"{type(told).__name__}: "  # a refusal names the operator itself
    return f"{kind}{text}{where}"


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it came from, outermost first."""
    seen: set[int] = set()
    waiting: BaseException | None = error
    while waiting is not None and id(waiting) not in seen:
        seen.add(id(waiting))
        yield waiting
        waiting = getattr(waiting, "inner_exception", None) or waiting.__cause__ or waiting.__context__


def _frames(error: BaseException) -> Iterator[traceback.FrameSummary]:
    """Where it was raised; of Dynamo's errors, also the code that was being traced."""
    yield from traceback.extract_tb(error.__traceback__)
    yield from getattr(error, "real_stack", None) or ()


def fresh(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` behind a code object of its own, so that Dynamo's cache and its limit stay out of other people's way."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    code: CodeType = call.__code__
    return FunctionType(code.replace(), call.__globals__, call.__name__, None, call.__closure__)
