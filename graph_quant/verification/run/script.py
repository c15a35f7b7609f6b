"""Runs a user's script and verifies what it compiles, or the model that it defines."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch._dynamo.exc import TorchDynamoException

from ...meta import Refusal
from ..errors import VerificationError
from ..report.report import Report
from .api import verify
from .interception import capture
from .progress import Progress

_NAMES = ("model", "inputs")


def verify_script(
    path: str,
    arguments: Sequence[str] = (),
    *,
    model: str | None = None,
    inputs: str | None = None,
    dynamic: bool | None = None,
    calls: int | None = 1,
    max_error: float | None = None,
    min_sqnr: float | None = None,
    progress: Progress,
) -> Report:
    """Verify the graphs that the script runs; if it runs none, or names are given, ``model`` on ``inputs``.

    Where it stops after some graphs were compared, their report says so.
    """
    limits = {"max_error": max_error, "min_sqnr": min_sqnr}
    with _as_python_would(path, arguments) as defined:
        with capture(calls=calls, title=Path(path).name, progress=progress, **limits) as report:  # type: ignore[arg-type]
            try:
                _run(path, defined)
            except VerificationError as error:
                if not report.graphs:
                    raise
                report.stopped = error
                return report
        wanted = model is not None or inputs is not None
        if report.graphs and not wanted:
            return report
        if not wanted and not all(name in defined for name in _NAMES):
            raise VerificationError(f"{path}: it ran no graph compiled for the NPU and defines no `model` and `inputs`")
        function = _defined(path, defined, model or "model")
        if not callable(function):
            raise VerificationError(f"{path}: {model or 'model'} must be a module or a function, got {_kind(function)}")
        args, kwargs = _arguments(_defined(path, defined, inputs or "inputs"))
        try:
            found = verify(function, *args, kwargs=kwargs, dynamic=dynamic, **limits)  # type: ignore[arg-type]
        except VerificationError:
            raise
        except Exception as error:
            raise VerificationError(f"{path}: {model or 'model'} stops: {_in_one_line(path, error)}") from error
    found.title = f"{Path(path).name}: {model or 'model'}"
    return found


def _defined(path: str, defined: Mapping[str, Any], name: str) -> Any:
    if name not in defined:
        raise VerificationError(f"{path}: it defines no `{name}`")
    return defined[name]


def _arguments(given: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Positional and named arguments: given as a tuple or list, a dict, one value, or a function returning those."""
    if callable(given):
        given = given()
    if isinstance(given, Mapping):
        return (), given
    return (given, {}) if isinstance(given, (tuple, list)) else ((given,), {})


def _run(path: str, namespace: dict[str, Any]) -> None:
    try:
        source = Path(path).read_bytes()
    except OSError as error:
        raise VerificationError(f"{path}: {error.strerror}") from error
    try:
        exec(compile(source, path, "exec"), namespace)
    except SystemExit as left:
        if left.code not in (None, 0):
            raise VerificationError(f"{path}: it ended with exit code {left.code}") from left
    except (VerificationError, BrokenPipeError):
        raise
    except Exception as error:
        raise VerificationError(f"{path}: it stops: {_in_one_line(path, error)}") from error


@contextmanager
def _as_python_would(path: str, arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The namespace of a ``__main__``, with ``sys.argv`` and ``sys.path`` as under ``python script.py arguments``."""
    main, argv, paths = sys.modules["__main__"], sys.argv, list(sys.path)
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        yield vars(module)
    finally:
        sys.modules["__main__"], sys.argv, sys.path[:] = main, argv, paths


def _in_one_line(path: str, error: BaseException) -> str:
    """The rule that was broken, without what Dynamo wraps around it, and the line of the script that it came from."""
    causes = list(_causes(error))
    frames = [frame for each in causes for frame in _frames(each) if frame.filename == path]
    # Dynamo's own errors tell that tracing failed, and not why.
    own = [each for each in causes if not isinstance(each, TorchDynamoException)]
    told = next((each for each in causes if isinstance(each, Refusal)), own[0] if own else error)
    text = next((line.strip() for line in str(told).splitlines() if line.strip()), "")
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    kind = "" if isinstance(told, Refusal) else f"{type(told).__name__}: "  # a refusal names the operator itself
    return f"{kind}{text}{where}"


def _causes(error: BaseException) -> Iterator[BaseException]:
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


def _kind(value: Any) -> str:
    return type(value).__name__
