"""Reads FX graphs in the format of ``print_readable``, which TORCH_COMPILE_DEBUG=1 writes; executes nothing.

A call becomes a node whose type is the operator. Dtypes and shapes come from the annotations.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import Any

from ...ge import OUTPUT_TYPE, TO_DESC, UNDEFINED, Source, new_graph, set_attribute
from ..errors import DumpError
from .file_contents import Progress

_CLASS = re.compile(r"^(?P<indent> *)class (?P<name>\S+)\(torch\.nn\.Module\):$", re.MULTILINE)
_MODULE = r" *(?:# module: (?P<module>\S*) )?#"
_FILE = re.compile(_MODULE + r" File: (?P<file>.*?):(?P<line>\d{1,9}) in (?P<function>\S+?)(?:, code: (?P<code>.*))?$")
_NO_FILE = re.compile(_MODULE + r" No stacktrace found")
_TYPE = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<shape>[^\]]*)\]")
# torch's short words for dtypes.
_DTYPES = {"bf16": "bfloat16", "f64": "float64", "f32": "float32", "f16": "float16", "f8e4m3fn": "float8_e4m3fn",
           "f8e5m2": "float8_e5m2", "f8e8m0fnu": "float8_e8m0", "c32": "complex32", "c64": "complex64",
           "c128": "complex128", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "b8": "bool",
           "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64"}  # fmt: skip
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne", ast.USub: "neg", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.Invert: "invert",
}  # fmt: skip


def read_fx(text: str, progress: Progress) -> tuple[list[Any], dict[str, Source]]:
    """Read the graphs of the file, including those of conditions and loops, and the source of each node."""
    try:
        tree = ast.parse(_CLASS.sub(r"\g<indent>class _:", text))
    except (SyntaxError, ValueError) as error:
        raise DumpError(f"this is not an FX graph as print_readable writes it: {error}") from None
    names = [match["name"] for match in _CLASS.finditer(text)]
    classes = sorted((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)), key=lambda node: node.lineno)
    sources = _read_sources(text)
    graphs, node_sources = [], {}
    for name, declared in zip(names, classes, strict=False):
        forward = next((part for part in declared.body if isinstance(part, ast.FunctionDef)), None)
        if forward is None:
            continue
        reader = _ForwardReader(name, sources)
        reader.read(forward)
        graphs.append(reader.graph)
        node_sources.update(reader.sources)
        progress(len(graphs) / len(names))
    if not graphs:
        raise DumpError("the file holds no forward()")
    return graphs, node_sources


def _read_sources(text: str) -> dict[int, Source]:
    """Map each line to the source in the last comment above it."""
    current, sources = Source(), {}
    for number, line in enumerate(text.splitlines(), 1):
        if comment := _FILE.match(line):
            code = (comment["code"] or "").strip()
            location = comment["file"], int(comment["line"]), comment["function"]
            current = Source("", *location, code=code, module=comment["module"] or "")
        elif comment := _NO_FILE.match(line):
            current = Source(module=comment["module"] or "")
        sources[number] = current
    return sources


@dataclass
class _ForwardReader:
    """Reads one graph, statement by statement."""

    name: str
    lines: dict[int, Source]
    graph: Any = None
    sources: dict[str, Source] = field(default_factory=dict)
    _tensors: dict[str, str] = field(default_factory=dict)
    _modules: dict[str, str] = field(default_factory=dict)

    def read(self, forward: ast.FunctionDef) -> None:
        self.graph = new_graph(self.name)
        for index, argument in enumerate(forward.args.args[1:]):
            op = self.graph.op.add(name=argument.arg, type="Data")
            op.attr["index"].i = index
            _set_desc(op.output_desc.add(name="y"), argument.annotation)
            self._tensors[argument.arg] = f"{argument.arg}:0"
        for statement in forward.body:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation) if value is not None:
                self._assign(name, value, annotation, statement.lineno)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=None)):
                return  # a deleted variable
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value, None, statement.lineno)
            case ast.Return(value=value) if value is not None:
                op = self.graph.op.add(name="output", type=OUTPUT_TYPE)
                self._arguments(op, [value])
                for index, desc in enumerate(op.input_desc):
                    desc.name = f"input{index}"
            case ast.Expr(value=ast.Call()):
                self._assign(f"call_{statement.lineno}", statement.value, None, statement.lineno)

    def _assign(self, name: str, value: ast.expr, annotation: ast.expr | None, line: int) -> None:
        match value:
            case ast.Name(id=other) if other in self._tensors:
                self._tensors[name] = self._tensors[other]
                return
            case ast.Attribute(value=ast.Name(id="self"), attr=module):
                self._attribute_of_module(name, module, annotation)
                return
            case ast.Subscript(value=ast.Name(id=other), slice=ast.Constant(value=int(index))) if self._tensors.get(
                other, ""
            ).endswith(":?"):
                self._element(name, other, index, annotation)
                return
        op = self.graph.op.add(name=name, type=_operator_name(value))
        self.sources[name] = replace(self.lines.get(line, Source()), fx=name)
        self._arguments(op, _operands(value), value.keywords if isinstance(value, ast.Call) else [])
        if annotation is None:
            self._tensors[name] = f"{name}:?"  # a tuple, or nothing; later lines index it
        else:
            _set_desc(op.output_desc.add(name="y"), annotation)
            self._tensors[name] = f"{name}:0"

    def _attribute_of_module(self, name: str, module: str, annotation: ast.expr | None) -> None:
        """Read an attribute of the module: a graph that a condition or loop calls, or a tensor."""
        if annotation is None:
            self._modules[name] = module
            return
        op = self.graph.op.add(name=name, type="Variable")
        _set_desc(op.output_desc.add(name="y"), annotation)
        self._tensors[name] = f"{name}:0"

    def _element(self, name: str, other: str, index: int, annotation: ast.expr | None) -> None:
        producer = self._tensors[other].partition(":")[0]
        op = next(op for op in self.graph.op if op.name == producer)
        if not 0 <= index < 1024:
            raise DumpError(f"{name}: output {index} of {producer}")
        while len(op.output_desc) <= index:
            op.output_desc.add(name=str(len(op.output_desc)))
        _set_desc(op.output_desc[index], annotation)
        self._tensors[name] = f"{producer}:{index}"

    def _arguments(self, op: Any, positional: list[ast.expr], keywords: list[ast.keyword] | None = None) -> None:
        for index, argument in enumerate(positional):
            self._argument(op, f"arg{index}", argument)
        for word in keywords or []:
            self._argument(op, word.arg or "arguments", word.value)

    def _argument(self, op: Any, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Name) and value.id in self._modules:
            op.subgraph_name.append(self._modules[value.id])
        elif isinstance(value, ast.Name) and value.id in self._tensors:
            op.input_desc.add(name=name)
            op.input.append(self._tensors[value.id].replace(":?", ":0"))
        elif isinstance(value, ast.List | ast.Tuple) and any(self._is_tensor(item) for item in value.elts):
            for index, item in enumerate(value.elts):
                self._argument(op, f"{name}_{index}", item)
        else:
            set_attribute(op, name, "", _parse_literal(value))

    def _is_tensor(self, value: ast.expr) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self._tensors for part in ast.walk(value))


def _operator_name(value: ast.expr) -> str:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method)) if owner != "torch":
            return method if not owner.startswith("_") else f"{owner}.{method}"
        case ast.Call(func=function):
            return ast.unparse(function).removeprefix("torch.ops.").removeprefix("torch.")
        case ast.BinOp(op=op) | ast.UnaryOp(op=op):
            return _OPERATORS.get(type(op), type(op).__name__)
        case ast.Compare(ops=[op]):
            return _OPERATORS.get(type(op), type(op).__name__)
        case ast.Subscript():
            return "getitem"
        case ast.Attribute(attr=name):
            return f"getattr.{name}"
    return "constant"


def _operands(value: ast.expr) -> list[ast.expr]:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner) as tensor), args=arguments) if owner != "torch":
            return [tensor, *arguments]
        case ast.Call(args=arguments):
            return list(arguments)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.Subscript(value=tensor, slice=index):
            return [tensor, index]
        case ast.Attribute(value=tensor):
            return [tensor]
    return [value]


def _parse_literal(value: ast.expr) -> Any:
    try:
        plain = ast.literal_eval(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return ast.unparse(value)
    if isinstance(plain, list | tuple) and all(type(item) is int for item in plain):
        return list(plain)
    return plain if isinstance(plain, bool | int | float | str) else ast.unparse(value)


def _set_desc(desc: Any, annotation: ast.expr | None) -> None:
    text = annotation.value if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str) else ""
    if match := _TYPE.match(text):
        word = _DTYPES.get(match["dtype"], UNDEFINED)
        desc.dtype = TO_DESC[word]
        desc.layout = "ND"
        sizes = [part.strip() for part in match["shape"].split(",") if part.strip()]
        desc.shape.SetInParent()
        desc.shape.dim.extend(int(size) if size.isdigit() and len(size) < 19 else -1 for size in sizes)
        if word != UNDEFINED:
            desc.attr["_meta"].s = f"Tensor(dtype=torch.{word}, shape=torch.Size([{match['shape']}])".encode()
    elif text.startswith("Sym("):
        desc.dtype = TO_DESC["int64"]
        desc.attr["_meta"].s = f"<class 'torch.SymInt'>({text[4:].removesuffix(')')})".encode()
