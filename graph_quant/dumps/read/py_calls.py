"""Converts the calls of a ``py`` dump to nodes of a GraphDef, by GE's registrations."""

from __future__ import annotations

import ast
import struct
from itertools import count
from typing import Any

from ...ge import OF_ATTRIBUTE, TO_DESC, UNDEFINED, Parameter, default_of, new_graph, registration, set_attribute
from ..errors import DumpError
from .py_literals import Literal, Reference, as_list, flatten, plain_value, read_argument

_PACK = {"float32": "f", "float64": "d", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
         "uint8": "B", "uint64": "Q", "uint32": "I", "bool": "?"}  # fmt: skip


class CallBuilder:
    """Builds the graph call by call; ``types`` are dtypes and shapes from the FX comments."""

    def __init__(self, types: dict[str, tuple[str, str]]) -> None:
        self.graph = new_graph()
        self._types = types
        self._tensors: dict[str, str] = {}
        self._names = {""}

    def add(self, assignment: tuple[list[str], str, ast.Call]) -> list[str]:
        """Add the nodes of one call and return their names; the last is the call itself."""
        targets, operator, call = assignment
        before = len(self.graph.op)
        keywords = {word.arg or "": read_argument(word.value) for word in call.keywords}
        name_argument = keywords.pop("node_name", None) or keywords.pop("name", None)
        name = name_argument.value if isinstance(name_argument, Literal) else targets[0].rpartition("_")[0]
        arguments = [read_argument(argument) for argument in call.args]
        op = new_graph().op.add(type=operator)
        op.name = self._unique(str(name or operator))
        for dependency in as_list(keywords.pop("dependencies", [])):
            op.input.append(f"{self._tensor(op, 'dependencies', dependency).rpartition(':')[0]}:-1")
        if operator == "Data":
            self._data(op, keywords)
        else:
            self._inputs(op, arguments, keywords)
            self._attributes(op, keywords)
            self._outputs(op, targets)
        self.graph.op.append(op)
        for index, target in enumerate(targets):
            self._tensors[target] = f"{op.name}:{index}"
        return [added.name for added in self.graph.op[before:]]

    def _data(self, op: Any, keywords: dict[str, Any]) -> None:
        values = {key: word.value if isinstance(word, Literal) else word for key, word in keywords.items()}
        op.attr["index"].i = values.get("index", 0)
        desc = op.output_desc.add(name="y", layout="ND", device_type=str(values.get("placement", "")))
        word = OF_ATTRIBUTE.get(values.get("dtype", -1), UNDEFINED)
        desc.dtype = TO_DESC[word]
        desc.shape.dim.extend(size.value for size in as_list(values.get("shape") or []))
        if op.name in self._types:
            dtype, shape = self._types[op.name]
            desc.attr["_meta"].s = f"Tensor(dtype=torch.{dtype}, shape=torch.Size([{shape}])".encode()
        op.input_desc.add().CopyFrom(desc)
        op.input_desc[-1].name = "x"

    def _inputs(self, op: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
        declared = registration(op.type)
        parameters = declared.inputs if declared else ()
        if op.type == "NetOutput":
            parameters = (Parameter("input", "dynamic", frozenset()),)
        for position, parameter in enumerate(parameters):
            value = arguments[position] if position < len(arguments) else keywords.pop(parameter.name, None)
            if parameter.kind == "dynamic":
                for index, item in enumerate(as_list(value or [])):
                    self._input(op, f"{parameter.name}{index}", item)
            else:
                self._input(op, parameter.name, value)
        for position, value in enumerate(arguments[len(parameters) :], len(parameters)):
            for item in as_list(value):
                self._input(op, f"x{position}", item)

    def _input(self, op: Any, name: str, value: Any) -> None:
        desc = op.input_desc.add(name=name)
        if value is None or value == Literal(None):
            op.input.append("")
            desc.attr["_is_unfed_optional"].i = 1
            return
        op.input.append(self._tensor(op, name, value))

    def _tensor(self, op: Any, name: str, value: Any) -> str:
        if isinstance(value, Reference):
            if value.name not in self._tensors:
                raise DumpError(f"{op.name}: {name} is {value.name}, which nothing before it assigns")
            return self._tensors[value.name]
        dtype = value.dtype if isinstance(value, Literal) else None
        return self._const(plain_value(value), dtype)

    def _const(self, value: Any, dtype: str | None) -> str:
        flat, shape = flatten(value)
        if dtype is None:
            dtype = "float32" if any(isinstance(item, float) for item in flat) else "int64"
        op = self.graph.op.add(type="Const", name=self._unique("Const"))
        tensor = op.attr["value"].t
        tensor.desc.dtype = TO_DESC[dtype]
        tensor.desc.layout = "ND"
        tensor.desc.shape.dim.extend(shape)
        try:
            tensor.data = struct.pack(f"<{len(flat)}{_PACK[dtype]}", *flat)
        except (KeyError, struct.error, OverflowError):
            raise DumpError(f"{op.name}: {str(value)[:60]} is not a constant of dtype {dtype}") from None
        op.attr["_readable_value"].s = repr(value).encode()
        op.output_desc.add().CopyFrom(tensor.desc)
        return f"{op.name}:0"

    def _attributes(self, op: Any, keywords: dict[str, Any]) -> None:
        declared = registration(op.type)
        for attribute in declared.attributes if declared else ():
            argument = keywords.pop(attribute.name, None)
            value = default_of(attribute) if argument is None else plain_value(argument)
            if value is not None:
                set_attribute(op, attribute.name, attribute.type, value)
        for name, argument in keywords.items():
            if isinstance(argument, Reference):
                self._input(op, name, argument)
            elif plain_value(argument) is not None:
                set_attribute(op, name, "", plain_value(argument))

    def _outputs(self, op: Any, targets: list[str]) -> None:
        declared = registration(op.type)
        names = [output.name for output in declared.outputs if output.kind != "dynamic"] if declared else []
        dynamic = (
            next((output.name for output in declared.outputs if output.kind == "dynamic"), "y") if declared else "y"
        )
        if op.type == "NetOutput":
            return
        for index in range(max(len(targets), len(names))):
            op.output_desc.add(name=names[index] if index < len(names) else f"{dynamic}{index - len(names)}")

    def _unique(self, name: str) -> str:
        candidate = name
        numbers = count(1)
        while candidate in self._names:
            candidate = f"{name}_{next(numbers)}"
        self._names.add(candidate)
        return candidate
