"""A script that `graph-quant run` starts ends at a refused call with the rule, the script's line and the page."""

import sys

from .interrupts import is_library

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import: this runs at interpreter start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from traceback import FrameSummary
    from types import TracebackType

TRACEBACK = "GRAPH_QUANT_TRACEBACK"


def shorten_refusals() -> None:
    """Print a `Refusal` that ends the process without the frames of libraries and Dynamo's explanation."""
    from os import environ

    if environ.get(TRACEBACK) == "on":
        return
    show = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
        refusals = sys.modules.get("graph_quant.refusals")
        if refusals is None or not isinstance(error, refusals.Refusal) or sys.stderr is None:
            show(kind, error, trace)
            return
        print("\n".join(_report(error)), file=sys.stderr)
        _drop_error_code()

    sys.excepthook = shown


def _report(error: BaseException) -> "Iterator[str]":
    rule = str(error).partition("\n")[0]
    yield rule
    frames = [frame for frame in _frames(error) if not is_library(frame.filename)]
    if frames:
        yield f"  {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"
    yield f"  its rules: {_page(rule.partition(':')[0])}"
    yield "  the whole traceback: graph-quant run --traceback …"


def _frames(error: BaseException) -> "Iterator[FrameSummary]":
    """The frames of the traceback, then those of the code that Dynamo traced."""
    import traceback

    yield from traceback.extract_tb(error.__traceback__)
    yield from getattr(error, "real_stack", None) or ()


def _page(operator: str) -> str:
    """The page of an operator; the list of them where it has no page of its own, or they are not installed."""
    from pathlib import Path

    from ..operator_index import RECORDS

    root = Path(__file__).parents[2]
    for name, module in RECORDS.items():
        if name.partition("::")[2].partition(".")[0] == operator:
            page = f"docs/operators/{module.split('.')[2]}/{operator}.md"
            if (root / page).is_file():
                return page
    return "docs/operators/README.md"


def _drop_error_code() -> None:
    """Keep torch_npu from printing at exit that an unknown error has ended the process."""
    codes = sys.modules.get("torch_npu.utils._error_code")
    if codes is not None:
        codes._except_handler.exception = None
