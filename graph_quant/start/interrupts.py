"""Ctrl-C in a script shows where the script was, not the hundreds of lines of the compiler that it was in."""

import sys

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import: this runs at interpreter start
if TYPE_CHECKING:
    from types import TracebackType


def shorten_interrupts() -> None:
    """Leave libraries out of the traceback of a `KeyboardInterrupt` that ends the process."""
    show = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, trace: "TracebackType | None") -> None:
        if kind is not KeyboardInterrupt or sys.stderr is None:
            show(kind, error, trace)
            return
        import traceback
        from contextlib import suppress

        frames = traceback.extract_tb(trace)
        own = [frame for frame in frames if not is_library(frame.filename)]
        print("Traceback (most recent call last):", file=sys.stderr)
        print("".join(traceback.format_list(own)), end="", file=sys.stderr)
        if len(own) < len(frames):
            print(f"  ({len(frames) - len(own)} frames of libraries)", file=sys.stderr)
        print("KeyboardInterrupt", file=sys.stderr)
        # CPython ends by SIGINT only if the code that it ran last from a file or a string was interrupted, and the
        # imports above run code from strings.
        with suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")

    sys.excepthook = shown


def is_library(file: str) -> bool:
    """Whether code is of the standard library, installed, generated, or of this package."""
    from pathlib import Path
    from sysconfig import get_paths

    paths = get_paths()
    roots = [paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"], str(Path(__file__).parents[1])]
    for name in ("graph_quant.meta", "graph_quant.converters"):  # in a clone they are beside the package
        roots += getattr(sys.modules.get(name), "__path__", ())
    return file.startswith("<") or any(Path(file).is_relative_to(root) for root in roots)
