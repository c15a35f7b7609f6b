"""Dry runs of functions and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import scripts
from .findings import DryRun
from .interception import intercept


class _ScriptStoppedError(Exception):
    """A script stops with an error."""


def plan(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    config: Any = None,
) -> DryRun:
    """Trace and lower ``fn(*inputs, **kwargs)`` for the NPU without executing its graphs.

    After a graph break, tracing continues with zeros as the results of the graph before it.

    Args:
        fn: A function or module.
        inputs: Its positional arguments.
        kwargs: Its keyword arguments.
        dynamic: As in ``torch.compile``.
        config: A TorchAir CompilerConfig.

    Returns:
        The graphs, graph breaks, refused calls, and the error that stopped the function, if any. ``ok`` is whether
        everything lowers without a break; ``print`` shows a report.

    Examples:
        >>> dry_run = graph_quant.plan(model, torch.randn(4, 64).npu())
        >>> print(dry_run)
    """
    import torchair

    run = DryRun(getattr(fn, "__name__", type(fn).__name__))
    backend = torchair.get_npu_backend(compiler_config=config)
    with intercept(run), torch.no_grad():
        try:
            torch.compile(scripts.fresh(fn), backend=backend, dynamic=dynamic)(*inputs, **dict(kwargs or {}))
        except Exception as error:
            run.stopped = scripts.in_one_line(fn.__code__.co_filename if hasattr(fn, "__code__") else "", error)
    return run


def dry_run_script(
    path: str,
    arguments: Sequence[str] = (),
    *,
    model: str | None = None,
    inputs: str | None = None,
    dynamic: bool | None = None,
) -> DryRun:
    """Dry-run what a script compiles, or its ``model`` if it compiles nothing.

    Args:
        path: The script.
        arguments: Its command line arguments.
        model: The name of a module or function in the script to dry-run instead.
        inputs: The name of the inputs of that model.
        dynamic: As in ``torch.compile``, for ``model``.

    Returns:
        The dry run.

    Raises:
        FileNotFoundError: If there is no such script.
        ValueError: If it is not a Python script, or does not define the names.

    Examples:
        >>> dry_run_script("serve.py", ["--layers", "2"]).ok
    """
    run = DryRun(Path(path).name)
    with scripts.script_environment(path, arguments) as namespace:
        with intercept(run):
            try:
                scripts.run(path, namespace, _ScriptStoppedError)
            except _ScriptStoppedError as error:
                if not Path(path).is_file():
                    raise FileNotFoundError(str(error)) from None
                if isinstance(error.__cause__, scripts.NoScriptError):
                    raise ValueError(str(error)) from None
                # A script that checks its results gets zeros: exiting because of them is not a failure.
                if not isinstance(error.__cause__, SystemExit):
                    run.stopped = str(error).removeprefix(f"{path}: ").removeprefix("it stops: ")
        wanted = model is not None or inputs is not None
        if not wanted and not (run.is_empty and all(name in namespace for name in scripts.NAMES)):
            return run
        try:
            function, args, named = scripts.model_of(path, namespace, model, inputs, _ScriptStoppedError)
        except _ScriptStoppedError as error:
            raise ValueError(str(error)) from None
        model_run = plan(function, *args, kwargs=named, dynamic=dynamic)
    model_run.title = f"{Path(path).name}: {model or 'model'}"
    return model_run
