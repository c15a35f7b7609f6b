"""What Inductor is told of this package's steps, and of what is worth storing."""

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

# Functions that Inductor computes again for every element of a larger result that reads them.
_WAVES = (torch.ops.aten.cos.default, torch.ops.aten.sin.default)


def load() -> None:
    """Import what torch_npu adds to Inductor, without its remark that Triton is missing: code for CPUs needs none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "triton-ascend is not installed")
        importlib.import_module("torch_npu._inductor")
    decompositions = importlib.import_module("torch._inductor.decomposition").decompositions
    if int8_matmul.STEP not in decompositions:
        # What is not decomposed is called as it is; Inductor takes no operator for both unless it is told to.
        _lowering().make_fallback(int8_matmul.STEP, override_decomp=True)
        decompositions[int8_matmul.STEP] = int8_matmul.as_int_mm


@functools.cache
def _tag() -> str:
    return f"graph_quant {zlib.crc32(Path(__file__).read_bytes()):08x}"


def _lowering() -> Any:
    return importlib.import_module("torch._inductor.lowering")


@contextmanager
def told() -> Iterator[None]:
    """Let Inductor compile as this package's graphs need it.

    Code that it keeps on disk is found again only by those who told it the same.
    """
    _name_steps()
    settings: Any = torch.compiler.config
    with _storing_waves(), settings.patch(cache_key_tag=f"{settings.cache_key_tag} {_tag()}"):
        yield


def _name_steps() -> None:
    """Let its code call steps as the functions they are: through the dispatcher a call takes twice as long."""
    codegen = importlib.import_module("torch._inductor.codegen.custom_extern_kernel_codegen")
    kernels = importlib.import_module("torch._inductor.select_algorithm").extern_kernels
    for name, compute in STEPS.items():
        operator = f"torch.ops.graph_quant.{name}.default"
        if operator not in codegen.CUSTOM_EXTERN_KERNEL_CODEGEN:
            setattr(kernels, _named(name), compute)
            codegen.CUSTOM_EXTERN_KERNEL_CODEGEN[operator] = codegen.CustomCodegen(python=_calling(_named(name)))


def _named(step: str) -> str:
    return f"graph_quant_{step}"


def _calling(name: str) -> Callable[..., None]:
    def write(node: Any, write_line: Callable[[str], None]) -> None:
        given = ", ".join([*node.codegen_args(), *node.codegen_kwargs()])
        write_line(f"{node.get_name()} = extern_kernels.{name}({given})")

    return write


@contextmanager
def _storing_waves() -> Iterator[None]:
    """Let Inductor compute sines and cosines once: those of rotary embeddings are the same for every head.

    It stores exponentials and logarithms that several read, but not these, which take as long.
    """
    lowerings = _lowering().lowerings
    own = {wave: lowerings[wave] for wave in _WAVES}
    lowerings.update({wave: _stored(lowering) for wave, lowering in own.items()})
    try:
        yield
    finally:
        lowerings.update(own)


def _stored(lowering: Callable[..., Any]) -> Callable[..., Any]:
    def lower(*args: Any, **kwargs: Any) -> Any:
        result = lowering(*args, **kwargs)
        result.realize()
        return result

    return lower
