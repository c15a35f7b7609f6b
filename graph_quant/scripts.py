"""Runs a user's script or function as Python would, isolated from other code, and reports an error in one line."""

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
_SITE = Path(__file__).parent / "start" / "site"  # on PYTHONPATH, it prepares a Python process for torch_npu


class NoScriptError(Exception):
    """A file that Python cannot compile."""


@contextmanager
def script_environment(path: str, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a ``__main__`` namespace, with ``sys.argv`` and ``sys.path`` as under ``python script.py arguments``.

    Processes that the script starts load torch_npu. What a script changes in the process is restored: the working
    folder, and standard output and error.
    """
    main, argv, paths = sys.modules["__main__"], sys.argv, list(sys.path)
    folder, streams = Path.cwd(), (sys.stdout, sys.stderr)
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    python_path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SITE), python_path)))
    try:
        yield vars(module)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, paths
        sys.stdout, sys.stderr = streams
        if python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = python_path
        os.chdir(folder)


def run(path: str, namespace: dict[str, Any], error: type[Exception]) -> None:
    """Run the script in ``namespace``; convert every exception that is not an ``error`` into one."""
    try:
        source = Path(path).read_bytes()
    except OSError as reason:
        raise error(f"{path}: {reason.strerror}") from reason
    try:
        code = compile(source, path, "exec")
    except (SyntaxError, ValueError) as reason:
        raise error(f"{path}: it is no Python script: {in_one_line(path, reason)}") from NoScriptError(str(reason))
    try:
        with _catch_exit():
            exec(code, namespace)
    except SystemExit as left:
        if left.code not in (None, 0):
            raise error(f"{path}: it ended with exit code {left.code}") from left
    except (error, BrokenPipeError):
        raise
    except Exception as reason:
        raise error(f"{path}: it stops: {in_one_line(path, reason)}") from reason


@contextmanager
def _catch_exit() -> Iterator[None]:
    """Make ``os._exit`` end the script, not the command that runs it, which still has to print its findings."""
    exit_process, process = os._exit, os.getpid()

    def left(status: int) -> NoReturn:
        if os.getpid() != process:
            exit_process(status)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(status)
        print("graph-quant: a thread of the script ended the process", file=sys.stderr, flush=True)
        exit_process(status or 2)

    os._exit = left
    try:
        yield
    finally:
        os._exit = exit_process


def model_of(
    path: str, namespace: Mapping[str, Any], model: str | None, inputs: str | None, error: type[Exception]
) -> tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]:
    """Return the module or function of the script, and its arguments."""
    function = _defined(path, namespace, model or "model", error)
    if not callable(function):
        kind = type(function).__name__
        raise error(f"{path}: {model or 'model'} must be a module or a function, got {kind}")
    values = _defined(path, namespace, inputs or "inputs", error)
    if callable(values):
        try:
            values = values()
        except Exception as reason:
            raise error(f"{path}: {inputs or 'inputs'} stops: {in_one_line(path, reason)}") from reason
    return function, *_arguments(values)


def _defined(path: str, namespace: Mapping[str, Any], name: str, error: type[Exception]) -> Any:
    if name not in namespace:
        raise error(f"{path}: it defines no `{name}`")
    return namespace[name]


def _arguments(values: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return positional and named arguments, from a tuple or list, a dict, or one value."""
    if isinstance(values, Mapping):
        return (), values
    return (values, {}) if isinstance(values, (tuple, list)) else ((values,), {})


def in_one_line(path: str, error: BaseException) -> str:
    """Return the message of an error without what Dynamo wraps around it, and the line of the script that raised it."""
    chain = list(causes(error))
    frames = [frame for cause in chain for frame in _frames(cause) if frame.filename == path]
    # Dynamo's own errors say that tracing failed, and not why.
    own = [cause for cause in chain if not isinstance(cause, TorchDynamoException)]
    reported = next((cause for cause in chain if isinstance(cause, Refusal)), own[0] if own else error)
    text = next((line.strip() for line in str(reported).splitlines() if line.strip()), "")
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    kind = (
        "" if isinstance(reported, Refusal) else f"{type(reported).__name__}: "
    )  # a refusal names the operator itself
    return f"{kind}{text}{where}"


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = getattr(current, "inner_exception", None) or current.__cause__ or current.__context__


def _frames(error: BaseException) -> Iterator[traceback.FrameSummary]:
    """Yield the frames of an error; for Dynamo's errors, also those of the traced code."""
    yield from traceback.extract_tb(error.__traceback__)
    yield from getattr(error, "real_stack", None) or ()


def fresh(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``fn`` with a new code object, so that other code does not share its Dynamo cache and recompile limit."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    code: CodeType = call.__code__
    return FunctionType(code.replace(), call.__globals__, call.__name__, None, call.__closure__)
