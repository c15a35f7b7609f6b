"""Small deterministic tensors for tables of calls and tests; GRAPH_QUANT_SEED changes them."""

import os
import sys
import zlib

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch

SEED = int(os.environ.get("GRAPH_QUANT_SEED", "0"))
_streams: dict[str, torch.Generator] = {}
_drawing = "tables"


def draw_for(test: str) -> None:
    """Begin `test` with numbers of its own, whatever ran before it."""
    global _drawing
    _drawing = test
    _streams.clear()
    torch.manual_seed(SEED)


def _stream() -> torch.Generator:
    """The numbers of the module that asks: another table's change does not change them."""
    asking = f"{_drawing} {sys._getframe(2).f_globals['__name__']}"
    if asking not in _streams:
        _streams[asking] = torch.Generator().manual_seed(zlib.crc32(asking.encode()) + SEED)
    return _streams[asking]


def _floats(stream: torch.Generator, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.randn(shape, generator=stream) * 3).to(dtype)


def f16(*shape: int) -> torch.Tensor:
    return _floats(_stream(), torch.float16, shape)


def bf16(*shape: int) -> torch.Tensor:
    return _floats(_stream(), torch.bfloat16, shape)


def f32(*shape: int) -> torch.Tensor:
    return _floats(_stream(), torch.float32, shape)


def f64(*shape: int) -> torch.Tensor:
    return _floats(_stream(), torch.float64, shape)


def i8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, generator=_stream(), dtype=torch.int8)


def u8(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, generator=_stream(), dtype=torch.uint8)


def i32(*shape: int) -> torch.Tensor:
    return torch.randint(-(2**31), 2**31, shape, generator=_stream(), dtype=torch.int32)


def small32(*shape: int) -> torch.Tensor:
    return torch.randint(-999, 999, shape, generator=_stream(), dtype=torch.int32)


def ends(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def _cast(value: torch.Tensor, acl_format: int) -> torch.Tensor:
    import torch_npu

    if value.is_contiguous():
        return torch_npu.npu_format_cast(value.npu(), acl_format)  # type: ignore[no-any-return]
    return torch_npu.npu_format_cast(value.mT.contiguous().npu(), acl_format).mT  # type: ignore[no-any-return]


def stored(tensor: torch.Tensor, acl_format: int) -> torch.Tensor:
    """Return the tensor, marked so that `on` casts it to a storage format on an NPU."""
    marked = tensor.view_as(tensor)
    marked.stored_in = acl_format  # type: ignore[attr-defined]
    return marked


def nz(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, marked so that `on` casts it to FRACTAL_NZ on an NPU."""
    return stored(tensor, 29)


def on(device: str, value: object) -> object:
    """`value` moved to `device`, if it is a tensor or a list of them; strides are kept, and formats on an NPU."""
    if isinstance(value, (list, tuple)):
        return [on(device, item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    if device == "npu" and hasattr(value, "stored_in"):
        return _cast(value, value.stored_in)
    if device == "cpu" or value.is_contiguous():
        return value.to(device)
    moved = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
    return moved.copy_(value)
