"""Operators that draw random numbers, on npu tensors: the distributions that graphs draw, from the NPU's generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor

from ...dispatcher import overload
from ...reference import distributions
from .. import recording
from ..alias import NPU
from . import kernels


def native_dropout_out(x: Tensor, p: float, train: bool | None, *, out0: Tensor, out1: Tensor) -> tuple[Tensor, Tensor]:
    """Dropout into given tensors."""
    result, mask = distributions.native_dropout(x, p, train)
    return out0.resize_(result.size()).copy_(result), out1.resize_(mask.size()).copy_(mask)


def rrelu_with_noise(x: Tensor, noise: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """A leaky unit whose slopes are drawn, and kept in ``noise``."""
    result, slopes = distributions.rrelu_with_noise(x, noise, *args, **kwargs)
    if slopes is not noise:
        noise.resize_(slopes.size()).copy_(slopes)
    return result


def rrelu_with_noise_in_place(x: Tensor, noise: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The same, written into ``x``."""
    return x.copy_(rrelu_with_noise(x, noise, *args, **kwargs))


def randperm(n: int, **options: Any) -> Tensor:
    """The overload without a generator draws from the default one."""
    return torch.ops.aten.randperm.generator(n, generator=None, **options)  # type: ignore[no-any-return]


def randperm_out(n: int, *, out: Tensor) -> Tensor:
    """The same into a given tensor."""
    return torch.ops.aten.randperm.generator_out(n, generator=None, out=out)  # type: ignore[no-any-return]


def dropout_with_byte_mask(x: Tensor, p: float, train: bool) -> Tensor:
    """Dropout whose mask has a byte for each element, by the operator that has a gradient."""
    if not train or p == 0 or x.numel() == 0:
        return x
    return torch.ops.npu._dropout_with_byte_mask(x, p)[0]  # type: ignore[no-any-return]


def dropout_gen_mask(size: Sequence[int], p: float, *, device: torch.device | None = None, **_options: Any) -> Tensor:
    """A mask of bits that the device's generator draws; whatever dtype is asked for, it is uint8."""
    drawn_for = torch.empty(size, dtype=torch.float16, device=device or NPU)
    return torch.ops.npu._npu_dropout(drawn_for, p)[1]  # type: ignore[no-any-return]


@cache
def _cpus(name: str) -> kernels.Kernel:
    """The CPU's own kernel, with a generator that the NPU's seeds; a captured stream notes it down."""
    op = overload(name)
    drawing = kernels.random(op, kernels.mutating(op))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return recording.record(op, drawing, args, kwargs) if recording.recording[0] else drawing(*args, **kwargs)

    return kernel


def _filling(name: str, draw: Callable[..., Tensor], plain: tuple[Any, ...] | None = None) -> kernels.Kernel:
    """Fill a tensor with what a distribution draws.

    With arguments that are ``plain`` all others are made of it, and it is the CPU's own over contiguous memory; so are
    complex numbers.
    """

    def fill(x: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        given = (*args, *kwargs.values())
        is_plain = plain is not None and (*given, *plain[len(given) :]) == plain and x.is_contiguous()
        if is_plain or x.is_complex():
            return _cpus(name)(x, *args, generator=generator, **kwargs)  # type: ignore[no-any-return]
        _check(name, x, *given)
        return x.copy_(draw(x, *args, generator=generator, **kwargs))

    return fill


def _drawing(name: str, draw: Callable[..., Tensor]) -> kernels.Kernel:
    """A new tensor of what a distribution draws."""

    def drawn(*args: Any, **kwargs: Any) -> Tensor:
        _check(name, *args)
        return draw(*args, **kwargs)

    return drawn


def _into(name: str, draw: Callable[..., Tensor]) -> kernels.Kernel:
    """The same into a given tensor."""

    def drawn(*args: Any, out: Tensor, **kwargs: Any) -> Tensor:
        _check(name, *args)
        result = draw(*args, **kwargs)
        return out.resize_(result.size()).copy_(result)

    return drawn


def _between(x: Tensor, low: int, high: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with integers below a bound; all that its type has are drawn by the CPU's own kernel."""
    bounds = torch.iinfo(x.dtype) if not x.is_floating_point() and x.dtype is not torch.bool else None
    is_refused = bounds is not None and high is not None and not bounds.min <= low <= high - 1 <= bounds.max
    if high is None or high - low >= 2**63 or high <= low or is_refused:
        return _cpus("aten::random_.from")(x, low, high, generator=generator)  # type: ignore[no-any-return]
    return x.copy_(distributions.integers(low, high, x.shape, dtype=x.dtype, device=x.device, generator=generator))


def _below(x: Tensor, high: int, *, generator: Generator | None = None) -> Tensor:
    return _between(x, 0, high, generator=generator)


def _check(name: str, x: Any, *given: Any) -> None:
    """Refuse what the CPU's kernels refuse. The values of tensors are not known while a stream is captured."""
    if "bernoulli" in name:
        is_one = name.endswith(("float", ".p"))
        chance = given[0] if given else 0.5 if is_one else x
        if isinstance(chance, Tensor):
            if not recording.recording[0] and not ((chance >= 0) & (chance <= 1)).all():
                raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        elif not 0 <= chance <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={chance}")
    elif "uniform" in name:
        low, high = given[0] if given else 0, given[1] if len(given) > 1 else 1
        if low > high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    elif "multinomial" in name:
        _check_weights(x, *given)
    elif "exponential" in name and given and given[0] <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={given[0]}")
    elif "geometric" in name and not 0 < given[0] < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={given[0]}")
    elif "normal" in name:
        std = given[1] if len(given) > 1 else 1
        if not isinstance(std, Tensor) and std < 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


def _check_weights(x: Tensor, num_samples: int, replacement: bool = False) -> None:
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > x.size(-1):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if recording.recording[0]:
        return
    if not ((x >= 0) & x.isfinite()).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (x.sum(-1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


_FILLED: dict[str, tuple[Callable[..., Tensor], tuple[Any, ...] | None]] = {
    "bernoulli_.Tensor": (distributions.bernoulli, None),
    "bernoulli_.float": (distributions.bernoulli_p, None),
    "cauchy_": (distributions.cauchy, None),
    "exponential_": (distributions.exponential, None),
    "geometric_": (distributions.geometric, None),
    "log_normal_": (distributions.log_normal, None),
    "normal_": (distributions.normal, (0, 1)),
    "uniform_": (distributions.uniform, (0, 1)),
}
_DRAWN: dict[str, Callable[..., Tensor]] = {
    "bernoulli": distributions.bernoulli,
    "bernoulli.p": distributions.bernoulli_p,
    "multinomial": distributions.multinomial,
    "normal.Tensor_Tensor": distributions.normal_tensor_mean,
    "normal.Tensor_float": distributions.normal_tensor_mean,
    "normal.float_Tensor": distributions.normal_tensor_std,
}
COMPOSED: dict[str, Callable[..., Any]] = {
    **{f"aten::{name}": _filling(f"aten::{name}", *how) for name, how in _FILLED.items()},
    **{f"aten::{name}": _drawing(name, draw) for name, draw in _DRAWN.items()},
    **{f"aten::{name}.out": _into(name, _DRAWN[name]) for name in ("bernoulli", "multinomial")},
    "aten::random_.from": _between,
    "aten::random_.to": _below,
    "aten::rrelu_with_noise": rrelu_with_noise,
    "aten::rrelu_with_noise_": rrelu_with_noise_in_place,
    "aten::native_dropout": distributions.native_dropout,
    "aten::native_dropout.out": native_dropout_out,
    "npu::dropout_with_byte_mask": dropout_with_byte_mask,
    "aten::randperm": randperm,
    "aten::randperm.out": randperm_out,
}
# Those that are given no tensor, so that no device's kernel is asked for.
FACTORIES: dict[str, Callable[..., Any]] = {"npu::npu_dropout_gen_mask": dropout_gen_mask}
