"""Configures Inductor for this package's custom operators, and for what to materialise."""

from __future__ import annotations

import functools
import importlib
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...dispatcher import STEPS
from ...reference.matmul import int8_matmul
from ...releases.alternatives import writing_extern_calls

# Functions that Inductor would recompute for every element of a larger result that reads them.
_TRIGONOMETRIC = (torch.ops.aten.cos.default, torch.ops.aten.sin.default)


def load() -> None:
    """Import torch_npu's extension of Inductor, without its warning that Triton is missing: CPU code needs none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "triton-ascend is not installed")
        importlib.import_module("torch_npu._inductor")
    decompositions = importlib.import_module("torch._inductor.decomposition").decompositions
    if int8_matmul.STEP not in decompositions:
        # Without a decomposition the operator is called as it is. Inductor needs override_decomp to allow both.
        _lowering().make_fallback(int8_matmul.STEP, override_decomp=True)
        decompositions[int8_matmul.STEP] = int8_matmul.as_int_mm


@functools.cache
def _tag() -> str:
    return f"graph_quant {zlib.crc32(Path(__file__).read_bytes()):08x}"


def _lowering() -> Any:
    return importlib.import_module("torch._inductor.lowering")


@contextmanager
def configured() -> Iterator[None]:
    """Configure Inductor for this package's graphs. The tag keeps its cache on disk apart from other configurations."""
    settings: Any = torch.compiler.config
    tagged = settings.patch(cache_key_tag=f"{settings.cache_key_tag} {_tag()}")
    with _calling_steps_directly(), _realizing_trigonometric(), _copying_scales(), tagged:
        yield


@contextmanager
def _calling_steps_directly() -> Iterator[None]:
    """Let generated code call this package's operators as plain functions: a dispatched call takes twice as long.

    Only the engine's code: what users compile is cached for processes that have no such functions.
    """
    kernels = importlib.import_module("torch._inductor.select_algorithm").extern_kernels
    for name, compute in STEPS.items():
        setattr(kernels, _kernel_name(name), compute)
    with writing_extern_calls({f"torch.ops.graph_quant.{name}.default": _direct_call(name) for name in STEPS}):
        yield


def _kernel_name(step: str) -> str:
    return f"graph_quant_{step}"


def _direct_call(step: str) -> Callable[..., None]:
    def write(node: Any, write_line: Callable[[str], None]) -> None:
        arguments = ", ".join([*node.codegen_args(), *node.codegen_kwargs()])
        write_line(f"{node.get_name()} = extern_kernels.{_kernel_name(step)}({arguments})")

    return write


@contextmanager
def _realizing_trigonometric() -> Iterator[None]:
    """Materialise sines and cosines: those of rotary embeddings are the same for every head.

    Inductor materialises exponentials and logarithms with several readers, but not these, which cost as much.
    """
    lowerings = _lowering().lowerings
    own = {op: lowerings[op] for op in _TRIGONOMETRIC}
    lowerings.update({op: _realized(lowering) for op, lowering in own.items()})
    try:
        yield
    finally:
        lowerings.update(own)


@contextmanager
def _copying_scales() -> Iterator[None]:
    """Let generated C++ code copy elements of float8_e8m0fnu as bytes: Inductor has no C++ type for them.

    It generates nothing but copies of them, for what needs other strides, and calls ATen for the rest.
    """
    types = importlib.import_module("torch._inductor.codegen.cpp_utils").DTYPE_TO_CPP
    if torch.float8_e8m0fnu in types:
        yield
        return
    types[torch.float8_e8m0fnu] = types[torch.uint8]
    try:
        yield
    finally:
        del types[torch.float8_e8m0fnu]


def _realized(lowering: Callable[..., Any]) -> Callable[..., Any]:
    def lower(*args: Any, **kwargs: Any) -> Any:
        result = lowering(*args, **kwargs)
        result.realize()
        return result

    return lower
