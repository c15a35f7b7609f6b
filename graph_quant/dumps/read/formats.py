"""Reads a dump file of any format, which is detected from its content."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import DumpError
from .file_contents import FileContents, Progress

_PBTXT = re.compile(r"\s*node\s*[:{]")
_TXT = re.compile(r"\s*(?:name\s*:|op\s*[:{]|attr\s*[:{])")
_PY = re.compile(r"^(?:from torchair\b|.* = ge\.\w+\()", re.MULTILINE)
_GE_CALL = re.compile(r"^[^#\n]* = ge\.\w+\(", re.MULTILINE)
_MODEL = re.compile(r"^graph\s*:?\s*\{", re.MULTILINE)
_ONNX_NODE = re.compile(r"\b(?P<word>node|op)\s*:?\s*\{")
_ONNX = re.compile(r"\s*(?:ir_version|producer_name)\s*:")
_READABLE = re.compile(r'\s*graph\(".*"\):\s*$', re.MULTILINE)
_FX = re.compile(r"^ *class \S+\(torch\.nn\.Module\):\s*$", re.MULTILINE)
# The keys that a serialised ModelDef may begin with: its name, versions, a graph, an attribute.
_MODEL_KEYS = {0x0A, 0x10, 0x1A, 0x3A, 0x5A, 0x62}
_HEAD = 1 << 16
_FORMATS = (
    "txt, pbtxt, py and air of TorchAir; ge_proto, ge_onnx and ge_readable of GE; FX graphs of TORCH_COMPILE_DEBUG"
)


def detect_format(text: str) -> str | None:
    """Detect the format of a text from its beginning."""
    head = text[:_HEAD]
    if _READABLE.match(head):
        return "ge_readable"
    if _ONNX.match(head):
        return "ge_onnx"
    if match := _MODEL.search(head):
        node = _ONNX_NODE.search(head, match.end())
        return "ge_onnx" if node and node["word"] == "node" else "ge_proto"
    if _PBTXT.match(head):
        return "pbtxt"
    if _TXT.match(head):
        return "txt"
    if _FX.search(head):
        return "fx"
    return "py" if _PY.search(head) else None


def read_file(path: Path, progress: Progress) -> FileContents:
    """Read the dump at ``path``."""
    content = _read_bytes(path)
    try:
        if _is_binary(content):
            from .ge_model import read_model_bytes

            return _normalise(FileContents("air", read_model_bytes(content)))
        return _normalise(_read_text(content.decode("utf-8"), progress))
    except UnicodeDecodeError as error:
        raise DumpError(f"this is not text: byte {error.start} is not UTF-8") from None
    except (RecursionError, MemoryError):
        raise DumpError("the dump is nested too deeply to be read") from None


def _read_text(text: str, progress: Progress) -> FileContents:
    if "\0" in text:
        raise DumpError(f"this is not text: byte {text.index(chr(0))} is zero")
    kind = detect_format(text)
    if kind == "pbtxt":
        from .pbtxt import read_pbtxt

        return FileContents(kind, [read_pbtxt(text, progress)])
    if kind == "txt":
        from .txt import read_txt

        return FileContents(kind, [read_txt(text, progress)])
    if kind == "py":
        from .py import read_py

        graph, sources = read_py(text, progress)
        return FileContents(kind, [graph], sources)
    if kind is not None:
        return _read_several(kind, text, progress)
    raise DumpError(f"this is not a GE graph dump; what can be read: {_FORMATS}")


def _read_several(kind: str, text: str, progress: Progress) -> FileContents:
    """Read a format that may contain several graphs."""
    if kind == "ge_proto":
        from .ge_model import read_model_text

        graphs, cut = read_model_text(text, progress)
        return FileContents(kind, graphs, missing=cut)
    if kind == "ge_onnx":
        from .ge_onnx import read_ge_onnx

        graphs, uncalled = read_ge_onnx(text, progress)
        return FileContents(kind, graphs, missing=_describe_uncalled(uncalled))
    if kind == "ge_readable":
        from .ge_readable import read_ge_readable

        return FileContents(kind, read_ge_readable(text, progress))
    from .fx import read_fx

    graphs, sources = read_fx(text, progress)
    return FileContents(kind, graphs, sources)


def _normalise(contents: FileContents) -> FileContents:
    """Put the root first, name all inputs and outputs, and list what is missing."""
    if contents.kind in ("txt", "pbtxt", "py"):
        return contents
    from .normalise import list_missing, normalise_graph, order_graphs

    contents.graphs, uncalled = order_graphs(contents.graphs)
    if contents.kind != "ge_onnx":
        contents.missing += _describe_uncalled(uncalled)
    outside = [name for graph in contents.graphs for name in normalise_graph(graph)]
    if outside:
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        contents.missing.append(f"what computes {', '.join(outside[:3])}{more}")
    if contents.kind != "fx":
        contents.missing += list_missing(contents.graphs)
    return contents


def _describe_uncalled(names: list[str]) -> list[str]:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return [f"which node calls {', '.join(names[:3])}{more}"] if names else []


def looks_like_dump(path: Path) -> bool:
    """Whether a file begins like a dump."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return False
    if _is_binary(head):
        return _parses_as_model(path)
    text = head.decode("utf-8", "ignore")
    kind = detect_format(text)
    # A script that imports TorchAir is a dump only if it calls GE operators.
    return kind is not None and (kind != "py" or _GE_CALL.search(text) is not None)


def _parses_as_model(path: Path) -> bool:
    from .ge_model import read_model_bytes

    try:
        read_model_bytes(path.read_bytes())
    except (DumpError, OSError):
        return False
    return True


def _is_binary(content: bytes) -> bool:
    """Whether bytes may be a serialised model: they begin with one of its keys and are not text."""
    return bool(content) and content[0] in _MODEL_KEYS and (b"\0" in content[:_HEAD] or not _is_text(content[:_HEAD]))


def _is_text(content: bytes) -> bool:
    try:
        content[:-4].decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_tape(path: Path) -> bool:
    """Whether a file is the tape of a captured graph rather than a dump of a GE graph.

    Args:
        path: The file.

    Returns:
        True for JSON as ``NPUGraph.debug_dump`` writes it.

    Examples:
        >>> is_tape(Path("graph.json"))
    """
    if path.suffix != ".json":
        return False
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(1) == "["


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        raise DumpError("this is a folder; name one dump in it") from None
    except OSError as error:
        raise DumpError(error.strerror or type(error).__name__) from None
    if not content.strip():
        raise DumpError("the file is empty")
    return content
