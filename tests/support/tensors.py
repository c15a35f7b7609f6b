"""Small tensors for tables of calls. Values come from a fixed seed, so that every run sees the same ones."""

import graph_quant  # noqa: F401 (before torch: it makes torch_npu loadable)
import torch

_GENERATOR = torch.Generator().manual_seed(20)


def _floats(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return (torch.randn(shape, generator=_GENERATOR) * 3).to(dtype)


def f16(*shape: int) -> torch.Tensor:
    return _floats(torch.float16, shape)


def bf16(*shape: int) -> torch.Tensor:
    return _floats(torch.bfloat16, shape)


def f32(*shape: int) -> torch.Tensor:
    return _floats(torch.float32, shape)


def f64(*shape: int) -> torch.Tensor:
    return _floats(torch.float64, shape)


def i8(*shape: int) -> torch.Tensor:
    return torch.randint(-128, 128, shape, generator=_GENERATOR, dtype=torch.int8)


def u8(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, generator=_GENERATOR, dtype=torch.uint8)


def i32(*shape: int) -> torch.Tensor:
    return torch.randint(-(2**31), 2**31, shape, generator=_GENERATOR, dtype=torch.int32)


def small32(*shape: int) -> torch.Tensor:
    return torch.randint(-999, 999, shape, generator=_GENERATOR, dtype=torch.int32)


def ends(*values: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def on(device: str, value: object) -> object:
    """`value` moved to `device`, if it is a tensor or a list of them; strides are kept."""
    if isinstance(value, (list, tuple)):
        return [on(device, item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    if device == "cpu" or value.is_contiguous():
        return value.to(device)
    moved = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=device)
    return moved.copy_(value)
