"""Runs a user's script and verifies what it compiles, or the model that it defines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ... import scripts
from ..errors import VerificationError
from ..report.report import Report
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
    """Verify the graphs that the script runs; if it runs none, or names are given, ``model`` on ``inputs``.

    Where it stops after some graphs were compared, their report says so.
    """
    limits = {"max_error": max_error, "min_sqnr": min_sqnr}
    with scripts.as_python_would(path, arguments) as defined:
        with capture(calls=calls, title=Path(path).name, progress=progress, **limits) as report:  # type: ignore[arg-type]
            try:
                scripts.run(path, defined, VerificationError)
            except VerificationError as error:
                if not report.graphs:
                    raise
                report.stopped = error
                return report
        wanted = model is not None or inputs is not None
        if (report.graphs or report.outputs) and not wanted:
            return report
        if not wanted and not all(name in defined for name in scripts.NAMES):
            raise VerificationError(f"{path}: it ran no graph compiled for the NPU and defines no `model` and `inputs`")
        function, args, kwargs = scripts.model_of(path, defined, model, inputs, VerificationError)
        try:
            found = verify(function, *args, kwargs=kwargs, dynamic=dynamic, **limits)  # type: ignore[arg-type]
        except VerificationError:
            raise
        except Exception as error:
            raise VerificationError(f"{path}: {model or 'model'} stops: {scripts.in_one_line(path, error)}") from error
    found.title = f"{Path(path).name}: {model or 'model'}"
    return found
