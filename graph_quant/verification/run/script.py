"""Runs a user's script and verifies what it compiles, or the model that it defines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ... import scripts
from ..errors import VerificationError
from ..report.report import Report
from ..serving.reports import add_steps, collect_steps
from .api import verify
from .interception import capture
from .progress import Progress


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
    """Verify the graphs that a script runs; if it runs none, or names are given, its ``model`` on its ``inputs``.

    Args:
        path: The script.
        arguments: Its command line arguments.
        model: The name of a model or function in the script.
        inputs: The name of its inputs in the script.
        dynamic: As for ``torch.compile``.
        calls: The number of calls of each graph in which nodes are compared; None for all.
        max_error: The largest absolute error that is accepted.
        min_sqnr: The smallest ratio of signal to quantisation noise that is accepted, in dB.
        progress: How progress is shown.

    Returns:
        The report. If the script raised an error after some graphs were compared, ``stopped`` holds it.

    Raises:
        VerificationError: Nothing could be compared.
    """
    limits = {"max_error": max_error, "min_sqnr": min_sqnr}
    with scripts.script_environment(path, arguments) as defined:
        with capture(calls=calls, title=Path(path).name, progress=progress, **limits) as report:  # type: ignore[arg-type]
            try:
                with collect_steps() as steps:
                    scripts.run(path, defined, VerificationError)
            except VerificationError as error:
                add_steps(report, steps)
                if not report.graphs and not report.outputs:
                    raise
                report.stopped = error
                return report
            add_steps(report, steps)
        is_requested = model is not None or inputs is not None
        if (report.graphs or report.outputs) and not is_requested:
            return report
        if not is_requested and not all(name in defined for name in scripts.NAMES):
            raise VerificationError(f"{path}: it ran no graph compiled for the NPU and defines no `model` and `inputs`")
        function, args, kwargs = scripts.model_of(path, defined, model, inputs, VerificationError)
        try:
            report = verify(function, *args, kwargs=kwargs, dynamic=dynamic, **limits)  # type: ignore[arg-type]
        except VerificationError:
            raise
        except Exception as error:
            raise VerificationError(f"{path}: {model or 'model'} stops: {scripts.in_one_line(path, error)}") from error
    report.title = f"{Path(path).name}: {model or 'model'}"
    return report
