"""Runs the engine's kernels on fake tensors and symbolic sizes.

Equal values are one object, so a kernel runs once for each distinct combination of attributes and inputs: the
hundredth layer of a model costs a few dictionary lookups.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ...ge import (
    OF_DESC,
    TO_ATTRIBUTE,
    TO_DESC,
    Node,
    Sizes,
    TooMuchError,
    decode_attribute,
    decode_tensor,
    from_desc,
    ge_dtype_name,
    to_sizes,
    to_tensor,
)
from ...host.kernels import LONGEST_SIZES, Kernel
from ...releases.alternatives import compile_session
from ..errors import DumpError
from .shapes import DescType, TensorType, read_desc
from .symbolic import Symbols

# The attributes that state the dtype of a node's first result.
_RESULT_DTYPE = ("dst_type", "dtype", "type", "dst_dtype")
_MOST_ELEMENTS = 1 << 48
# Raised by kernels whose result depends on data, which a fake tensor does not have.
_DATA_DEPENDENT = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    GuardOnDataDependentSymNode,
)


@dataclass(frozen=True, eq=False)
class Value:
    """One output: a fake tensor or sizes, and its type; ``items`` are the elements of sizes."""

    content: Any
    type: TensorType
    items: tuple[Any, ...] | None = None


class FakeExecutor:
    """The fake values of one dump, interned, and the cached results of kernels."""

    def __init__(self, settled: Mapping[str, int | str] | None = None) -> None:
        self.symbols = Symbols(settled)
        self._mode = FakeTensorMode(shape_env=self.symbols.env, allow_non_fake_inputs=True)
        self._interned: dict[Any, Value] = {}
        self._results: dict[Any, tuple[Value, ...] | Exception] = {}
        self._converted: dict[tuple[int, bool], Any] = {}

    def input_value(self, node: Node) -> Value:
        """The value of a Data node: a size, or a tensor with the dump's symbols."""
        if not node.proto.output_desc:
            raise DumpError("it has no output desc")
        return self.desc_value(node.name, read_desc(node.proto.output_desc[0]))

    def desc_value(self, name: str, described: DescType) -> Value:
        """The value that a desc states."""
        if described.is_size and described.meta:
            size = self.symbols.expression(described.meta[0])
            return self._intern(Sizes((size,), (), torch.int64), "int64")
        dtype = from_desc(TO_DESC[described.dtype])
        return self._empty(self.symbols.input_shape(name, described), dtype, described.dtype)

    def constant_value(self, node: Node) -> Value:
        """The value of a Const node; a small one keeps its elements."""
        tensor = node.proto.attr["value"].t
        shape, word = tuple(tensor.desc.shape.dim), OF_DESC.get(tensor.desc.dtype, "")
        dtype = from_desc(tensor.desc.dtype)
        count = math.prod(shape)
        if min(shape, default=0) < 0 or len(tensor.data) not in (0, count * dtype.itemsize):
            raise DumpError(f"it holds {len(tensor.data)} bytes, which is not {word}{list(shape)}")
        if count <= LONGEST_SIZES and len(tensor.data) == count * dtype.itemsize and not dtype.is_complex:
            return self._intern(to_sizes(decode_tensor(tensor)), word)
        return self._empty(shape, dtype, word)

    def call(self, node: Node, kernel: Kernel, inputs: Mapping[str, Value], *, fold: bool) -> tuple[Value, ...]:
        """Run the kernel of ``node``; with ``fold``, on real tensors, as all inputs are small constants."""
        arranged = [_arrange_input(declared, inputs) for declared in kernel.inputs]
        attributes = {
            parameter: node.proto.attr[name] for name, parameter in kernel.attributes if name in node.proto.attr
        }
        key = (
            id(kernel),
            fold,
            tuple((name, attribute.SerializeToString()) for name, attribute in attributes.items()),
            tuple(tuple(map(id, value)) if isinstance(value, list) else id(value) for value in arranged),
        )
        if key not in self._results:
            try:
                self._results[key] = self._run(node, kernel, arranged, attributes, fold)
            except Exception as error:
                self._results[key] = error
        result = self._results[key]
        if isinstance(result, Exception):
            raise result
        return result

    def _run(
        self, node: Node, kernel: Kernel, arranged: list[Any], attributes: dict[str, Any], fold: bool
    ) -> tuple[Value, ...]:
        stated = {name: decode_attribute(attribute) for name, attribute in attributes.items()}
        keywords = {name: value for name, value in stated.items() if value is not None}
        convert = _to_real if fold else self._convert
        # Inside a compile session, kernels that loop over blocks of data take one symbolic step.
        with _without_torch_log(), nullcontext() if fold else self._tracing():
            arguments = [
                [convert(value, declared.is_size) for value in group]
                if isinstance(group, list)
                else (None if group is None else convert(group, declared.is_size))
                for declared, group in zip(kernel.inputs, arranged, strict=True)
            ]
            result = kernel.function(*arguments, **keywords)
            if node.type == "Reshape" and isinstance(arguments[1], Sizes) and not fold:
                result = _with_stated_sizes(result, arguments[1])
        several = result if isinstance(result, list) or type(result) is tuple else [result]
        flat = [value for group in arranged for value in (group if isinstance(group, list) else [group]) if value]
        words = [_result_dtype(node, index, content, flat) for index, content in enumerate(several)]
        if fold:
            return tuple(self._intern_folded(content, word) for content, word in zip(several, words, strict=True))
        return tuple(self._intern(content, word) for content, word in zip(several, words, strict=True))

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        with compile_session(), self._mode:
            yield

    def _intern_folded(self, tensor: torch.Tensor, word: str) -> Value:
        if tensor.numel() <= LONGEST_SIZES:
            return self._intern(to_sizes(tensor), word)
        return self._empty(tuple(tensor.shape), tensor.dtype, word)

    def _convert(self, value: Value, is_size: bool) -> Any:
        if isinstance(value.content, Sizes) == is_size:
            return value.content
        key = (id(value), is_size)
        if key not in self._converted:
            self._converted[key] = (to_sizes if is_size else to_tensor)(value.content)
        return self._converted[key]

    def _empty(self, shape: tuple[Any, ...], dtype: torch.dtype, word: str) -> Value:
        with self._mode:
            return self._intern(torch.empty(shape, dtype=dtype), word)

    def _intern(self, content: Any, word: str) -> Value:
        is_size = isinstance(content, Sizes)
        sizes = content.items if is_size else (*content.shape, *content.stride())
        key = (is_size, word, len(content.shape), tuple(_size_key(size) for size in sizes))
        if key not in self._interned:
            if not is_size and math.prod(size for size in content.shape if isinstance(size, int)) > _MOST_ELEMENTS:
                raise TooMuchError(f"{list(content.shape)} are more elements than any machine holds")
            shape = tuple(self.symbols.dim(size) for size in content.shape)
            items = tuple(self.symbols.dim(item) for item in content.items) if is_size else None
            self._interned[key] = Value(content, TensorType(word, shape), items)
        return self._interned[key]


def _with_stated_sizes(reshaped: torch.Tensor, shape: Sizes) -> torch.Tensor:
    """Give the result of a Reshape the sizes that the graph states; torch derives longer expressions."""
    sizes = [real if size in (0, -1) else size for size, real in zip(shape.ints, reshaped.shape, strict=True)]
    return torch.empty(sizes, dtype=reshaped.dtype)


def needs_data(error: Exception) -> bool:
    """Whether a kernel failed because its result depends on data, not because it rejects its inputs."""
    return isinstance(error, _DATA_DEPENDENT)


@contextmanager
def _without_torch_log() -> Iterator[None]:
    """Disable torch's log of failing fake kernels: a failure is an expected answer here."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _size_key(size: Any) -> Any:
    if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
        return size.node.expr
    return (type(size), repr(size)) if isinstance(size, float) else size


def _to_real(value: Value, is_size: bool) -> Any:
    return value.content if is_size else to_tensor(value.content)


def _arrange_input(declared: Any, inputs: Mapping[str, Value]) -> Any:
    if declared.is_dynamic:
        numbered = {name.removeprefix(declared.name): value for name, value in inputs.items()}
        return [numbered[number] for number in sorted(filter(str.isdecimal, numbered), key=int)]
    if declared.name not in inputs and not declared.is_optional:
        raise DumpError(f"it lacks its input {declared.name}")
    return inputs.get(declared.name)


def _result_dtype(node: Node, index: int, content: Any, inputs: list[Value]) -> str:
    """GE's name of a result's dtype. torch has no int4: it follows from an attribute, or from the inputs of a view."""
    stored = content.dtype
    if stored == torch.int8 and index == 0:
        stated = [name for name in _RESULT_DTYPE if name in node.proto.attr]
        numbers = [node.attribute(name) for name in stated]
        if TO_ATTRIBUTE["int4"] in numbers:
            return "int4"
        if not stated and any(value.type.dtype == "int4" for value in inputs):
            return "int4"
    return ge_dtype_name(stored)
