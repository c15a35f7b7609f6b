"""Reads GE's ModelDef: ``ge_proto`` dumps are its text form, TorchAir's ``.air`` its binary form."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from ...ge import schema
from ..errors import DumpError
from .file_contents import TRUNCATED, Progress
from .txt import chunks, merge_text


def read_model_text(text: str, progress: Progress) -> tuple[list[Any], list[str]]:
    """Read the graphs of a ModelDef in text form, and what a truncated file lacks."""
    model = schema().ModelDef()
    try:
        for start, end in chunks(text):
            text_format.Merge(text[start:end], model)
            progress(end / len(text))
    except (text_format.ParseError, ValueError, TypeError):
        model = schema().ModelDef()
        cut = _complete_prefix(text)
        if cut is None:
            merge_text(text, model)
        else:
            merge_text(cut, model)
            return _require_graphs(model), [TRUNCATED]
    return _require_graphs(model), []


def _complete_prefix(text: str) -> str | None:
    """The text up to the last complete node if it is truncated, else None."""
    if text.rstrip().endswith("\n}"):
        return None
    end = text.rfind("\n  }\n")
    return None if end < 0 else f"{text[:end]}\n  }}\n}}\n"


def read_model_bytes(content: bytes) -> list[Any]:
    """Read the graphs of a serialised ModelDef."""
    model = schema().ModelDef()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise DumpError("this is not text, and no model of GE in bytes either") from None
    if not any(graph.op for graph in model.graph):
        raise DumpError("this is not text, and no model of GE in bytes either")
    return _require_graphs(model)


def _require_graphs(model: Any) -> list[Any]:
    if not model.graph:
        raise DumpError("the model holds no graph")
    return list(model.graph)
