"""plan: a function or a script, lowered for the NPU and not run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .. import scripts
from .findings import DryRun
from .interception import intercept


class _ScriptStoppedError(Exception):
    """A script cannot be planned to its end."""


def plan(
    fn: Callable[..., Any],
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    config: Any = None,
) -> DryRun:
    """Lower ``fn(*inputs, **kwargs)`` for the NPU without running it, and say what became of it.

    Where the graph breaks, planning goes on behind the break, with zeros for what the graph before it would give.
    ``config`` is a TorchAir CompilerConfig.
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
    """Plan what the script compiles; if it compiles nothing, or names are given, its ``model`` on its ``inputs``."""
    run = DryRun(Path(path).name)
    with scripts.as_python_would(path, arguments) as namespace:
        with intercept(run):
            try:
                scripts.run(path, namespace, _ScriptStoppedError)
            except _ScriptStoppedError as error:
                if not Path(path).is_file():
                    raise FileNotFoundError(str(error)) from None
                if isinstance(error.__cause__, scripts.NoScriptError):
                    raise ValueError(str(error)) from None
                # A script that judges results sees zeros, and what it says of them is no fault of its graphs.
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
