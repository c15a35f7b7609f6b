"""Tensor types with symbolic shapes, and the size expressions in descs."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...ge import OF_DESC, UNDEFINED, printable
from ..errors import DumpError, UnboundedSizeError

_META = re.compile(r"\s*Tensor\(dtype=torch\.(?P<dtype>\w+), shape=(?:torch\.Size\()?\[(?P<shape>[^\]]*)\]")
_SYMBOL = re.compile(r"<class 'torch\.Sym(?:Int|Float|Bool)'>\((?P<shape>.*)\)")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\()")
_LONGEST = 400
_MOST_BITS = 256
UNKNOWN_DIM, UNKNOWN_RANK = -1, -2

Dim = Any  # an int, or a sympy expression over the dump's own symbols

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {"FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv,
                                                    "Mod": operator.mod, "PythonMod": operator.mod}  # fmt: skip


# Formats that only name the axes; any other stores a tensor in blocks.
_PLAIN_FORMATS = {"", "ND", "NCHW", "NHWC", "HWCN", "CHWN", "NCDHW", "NDHWC", "DHWCN", "NCL", "NLC", "FORMAT_RESERVED",
                  "RESERVED"}  # fmt: skip
_UNSTATED_FORMATS = {"", "ND", "FORMAT_RESERVED", "RESERVED"}


@dataclass(frozen=True)
class MemoryLayout:
    """The storage format of a tensor: the order of its axes, and format and shape of its blocks, if any."""

    axes: str
    blocks: str = ""
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        sizes = f"[{', '.join(map(format_dim, self.shape))}]" if self.shape else ""
        kept = f"as {self.blocks}{sizes}" if self.blocks else ""
        return " ".join(part for part in ("" if self.axes in _UNSTATED_FORMATS else self.axes, kept) if part)


PLAIN = MemoryLayout("ND")


@dataclass(frozen=True)
class TensorType:
    """GE's dtype name and a shape, None for unknown rank; ``inferred`` is False if only a desc states it."""

    dtype: str
    shape: tuple[Dim, ...] | None
    inferred: bool = True
    layout: MemoryLayout = PLAIN

    def __str__(self) -> str:
        sizes = "…" if self.shape is None else ", ".join(map(format_dim, self.shape))
        text = f"{self.dtype}[{sizes}]{'' if self.inferred else '?'}"
        return f"{text} {self.layout}".rstrip()


def format_dim(size: Dim) -> str:
    """Format a size without the brackets that sympy prints around a floor division."""
    text = str(size)
    if text.startswith("(") and text.endswith(")") and text.find(")") == len(text) - 1:
        return text[1:-1]
    return "?" if text == str(UNKNOWN_DIM) else text


@dataclass(frozen=True)
class DescType:
    """What a desc states: dtype, sizes (-1 unknown; None for unknown rank), and the sizes as symbolic text."""

    dtype: str
    dims: tuple[int, ...] | None
    meta: tuple[str, ...] | None
    is_size: bool
    layout: MemoryLayout = PLAIN

    @property
    def is_complete(self) -> bool:
        """Whether the dtype and every size are stated as numbers."""
        return self.dtype != UNDEFINED and self.dims is not None and min(self.dims, default=0) >= 0


def read_desc(desc: Any) -> DescType:
    """Read a TensorDescriptor; of a tensor stored in blocks, the sizes are the logical ones."""
    dims = tuple(desc.shape.dim) if desc.HasField("shape") else None
    if dims == (UNKNOWN_RANK,):
        dims = None
    dims, layout = _logical_dims(desc, dims)
    text = desc.attr["_meta"].s.decode("utf-8", "backslashreplace") if "_meta" in desc.attr else ""
    match = _META.match(text)
    size = _SYMBOL.match(text)
    meta: tuple[str, ...] | None = None
    if match:
        meta = _split_sizes(match["shape"])
    elif size:
        meta = (size["shape"],)
    return DescType(OF_DESC.get(desc.dtype, UNDEFINED), dims, meta, bool(size), layout)


def _logical_dims(desc: Any, dims: tuple[int, ...] | None) -> tuple[tuple[int, ...] | None, MemoryLayout]:
    """The logical sizes and the storage format of a tensor."""
    if desc.layout in _PLAIN_FORMATS:
        return dims, PLAIN if desc.layout in _UNSTATED_FORMATS else MemoryLayout(desc.layout)
    axes = desc.attr["origin_format"].s.decode("utf-8", "backslashreplace") if "origin_format" in desc.attr else "ND"
    own = tuple(desc.attr["origin_shape"].list.i) if "origin_shape" in desc.attr else ()
    if not own:  # only a format; the sizes are logical
        return dims, MemoryLayout(axes, printable(desc.layout, 40))
    return (None if own == (UNKNOWN_RANK,) else own), MemoryLayout(axes, printable(desc.layout, 40), dims or ())


def _split_sizes(text: str) -> tuple[str, ...]:
    """Split at commas outside brackets."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return tuple(part.strip() for part in parts if part.strip())


def symbols_in(text: str) -> list[str]:
    """The names in a size expression."""
    return [word for word in _WORD.findall(text[:_LONGEST]) if word not in _FUNCTIONS]


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """Evaluate a size expression over ``values`` by arithmetic only: no code of a dump is executed."""
    try:
        tree = ast.parse(text[: _LONGEST + 1].strip(), mode="eval").body
        if len(text) > _LONGEST:
            raise SyntaxError
        return _check_bits(_evaluate(tree, values))
    except OverflowError:
        raise UnboundedSizeError(f"{text[:60]} is too large for a size") from None
    except (SyntaxError, ValueError, RecursionError, MemoryError, ZeroDivisionError):
        raise DumpError(f"{text[:60]} is not a size") from None


def _check_bits(size: Any) -> Any:
    """Return the size; raise OverflowError if it, or the hint of a symbol, has too many bits."""
    number = size if isinstance(size, int) else getattr(getattr(size, "node", None), "hint", None)
    if isinstance(number, int) and number.bit_length() > _MOST_BITS:
        raise OverflowError
    return size


def _evaluate(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_check_bits(_evaluate(left, values)), _check_bits(_evaluate(right, values)))
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if 0 <= power <= 8:
            return _check_bits(_evaluate(left, values)) ** power
        case ast.BinOp(op=ast.Pow()):
            raise OverflowError
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_evaluate(left, values), _evaluate(right, values))
    raise ValueError
