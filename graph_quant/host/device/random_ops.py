"""Random operators on npu tensors: the distributions that graphs use, with the NPU's generators."""

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
    """native_dropout with out= tensors."""
    result, mask = distributions.native_dropout(x, p, train)
    return out0.resize_(result.size()).copy_(result), out1.resize_(mask.size()).copy_(mask)


def rrelu_with_noise(x: Tensor, noise: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Leaky ReLU with random slopes, which are stored in ``noise``."""
    result, slopes = distributions.rrelu_with_noise(x, noise, *args, **kwargs)
    if slopes is not noise:
        noise.resize_(slopes.size()).copy_(slopes)
    return result


def rrelu_with_noise_in_place(x: Tensor, noise: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """rrelu_with_noise, written into ``x``."""
    return x.copy_(rrelu_with_noise(x, noise, *args, **kwargs))


def randperm(n: int, **options: Any) -> Tensor:
    """Randperm with the default generator."""
    return torch.ops.aten.randperm.generator(n, generator=None, **options)  # type: ignore[no-any-return]


def randperm_out(n: int, *, out: Tensor) -> Tensor:
    """Randperm with an out= tensor and the default generator."""
    return torch.ops.aten.randperm.generator_out(n, generator=None, out=out)  # type: ignore[no-any-return]


def dropout_with_byte_mask(x: Tensor, p: float, train: bool) -> Tensor:
    """Dropout with a byte mask, by the operator that has a gradient."""
    if not train or p == 0 or x.numel() == 0:
        return x
    return torch.ops.npu._dropout_with_byte_mask(x, p)[0]  # type: ignore[no-any-return]


def dropout_gen_mask(size: Sequence[int], p: float, *, device: torch.device | None = None, **_options: Any) -> Tensor:
    """Return a random bit mask; it is uint8 whatever dtype is requested."""
    like = torch.empty(size, dtype=torch.float16, device=device or NPU)
    return torch.ops.npu._npu_dropout(like, p)[1]  # type: ignore[no-any-return]


@cache
def _cpu_kernel(name: str) -> kernels.Kernel:
    """Return the CPU's own kernel with a generator that is seeded by the NPU's; a captured stream records it."""
    op = overload(name)
    eager = kernels.random(op, kernels.mutating(op))

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return recording.record(op, eager, args, kwargs) if recording.recording[0] else eager(*args, **kwargs)

    return kernel


def _fill_kernel(name: str, sample: Callable[..., Tensor], standard: tuple[Any, ...] | None = None) -> kernels.Kernel:
    """Return the kernel that fills a tensor with samples of a distribution.

    The CPU's own kernel is used for complex tensors, and for contiguous ones with the parameters ``standard``: graphs
    derive samples with other parameters from those.
    """

    def fill(x: Tensor, *args: Any, generator: Generator | None = None, **kwargs: Any) -> Tensor:
        parameters = (*args, *kwargs.values())
        is_standard = standard is not None and (*parameters, *standard[len(parameters) :]) == standard
        if (is_standard and x.is_contiguous()) or x.is_complex():
            return _cpu_kernel(name)(x, *args, generator=generator, **kwargs)  # type: ignore[no-any-return]
        _check(name, x, *parameters)
        return x.copy_(sample(x, *args, generator=generator, **kwargs))

    return fill


def _sample_kernel(name: str, sample: Callable[..., Tensor]) -> kernels.Kernel:
    """Return the kernel that returns samples of a distribution in a new tensor."""

    def kernel(*args: Any, **kwargs: Any) -> Tensor:
        _check(name, *args)
        return sample(*args, **kwargs)

    return kernel


def _out_kernel(name: str, sample: Callable[..., Tensor]) -> kernels.Kernel:
    """Return the kernel that writes samples of a distribution into an out= tensor."""

    def kernel(*args: Any, out: Tensor, **kwargs: Any) -> Tensor:
        _check(name, *args)
        result = sample(*args, **kwargs)
        return out.resize_(result.size()).copy_(result)

    return kernel


def _random_from(x: Tensor, low: int, high: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with integers from [low, high); the full range of a dtype is sampled by the CPU's own kernel."""
    bounds = torch.iinfo(x.dtype) if not x.is_floating_point() and x.dtype is not torch.bool else None
    is_refused = bounds is not None and high is not None and not bounds.min <= low <= high - 1 <= bounds.max
    if high is None or high - low >= 2**63 or high <= low or is_refused:
        return _cpu_kernel("aten::random_.from")(x, low, high, generator=generator)  # type: ignore[no-any-return]
    return x.copy_(distributions.integers(low, high, x.shape, dtype=x.dtype, device=x.device, generator=generator))


def _random_to(x: Tensor, high: int, *, generator: Generator | None = None) -> Tensor:
    return _random_from(x, 0, high, generator=generator)


def _check(name: str, x: Any, *parameters: Any) -> None:
    """Raise as the CPU's kernels do. The values of tensors are not known while a stream is captured."""
    if "bernoulli" in name:
        is_scalar = name.endswith(("float", ".p"))
        probability = parameters[0] if parameters else 0.5 if is_scalar else x
        if isinstance(probability, Tensor):
            if not recording.recording[0] and not ((probability >= 0) & (probability <= 1)).all():
                raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        elif not 0 <= probability <= 1:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={probability}")
    elif "uniform" in name:
        low, high = parameters[0] if parameters else 0, parameters[1] if len(parameters) > 1 else 1
        if low > high:
            raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    elif "multinomial" in name:
        _check_weights(x, *parameters)
    elif "exponential" in name and parameters and parameters[0] <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={parameters[0]}")
    elif "geometric" in name and not 0 < parameters[0] < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={parameters[0]}")
    elif "normal" in name:
        std = parameters[1] if len(parameters) > 1 else 1
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


_FILLS: dict[str, tuple[Callable[..., Tensor], tuple[Any, ...] | None]] = {
    "bernoulli_.Tensor": (distributions.bernoulli, None),
    "bernoulli_.float": (distributions.bernoulli_p, None),
    "cauchy_": (distributions.cauchy, None),
    "exponential_": (distributions.exponential, None),
    "geometric_": (distributions.geometric, None),
    "log_normal_": (distributions.log_normal, None),
    "normal_": (distributions.normal, (0, 1)),
    "uniform_": (distributions.uniform, (0, 1)),
}
_SAMPLERS: dict[str, Callable[..., Tensor]] = {
    "bernoulli": distributions.bernoulli,
    "bernoulli.p": distributions.bernoulli_p,
    "multinomial": distributions.multinomial,
    "normal.Tensor_Tensor": distributions.normal_tensor_mean,
    "normal.Tensor_float": distributions.normal_tensor_mean,
    "normal.float_Tensor": distributions.normal_tensor_std,
}
COMPOSED: dict[str, Callable[..., Any]] = {
    **{f"aten::{name}": _fill_kernel(f"aten::{name}", *how) for name, how in _FILLS.items()},
    **{f"aten::{name}": _sample_kernel(name, sample) for name, sample in _SAMPLERS.items()},
    **{f"aten::{name}.out": _out_kernel(name, _SAMPLERS[name]) for name in ("bernoulli", "multinomial")},
    "aten::random_.from": _random_from,
    "aten::random_.to": _random_to,
    "aten::rrelu_with_noise": rrelu_with_noise,
    "aten::rrelu_with_noise_": rrelu_with_noise_in_place,
    "aten::native_dropout": distributions.native_dropout,
    "aten::native_dropout.out": native_dropout_out,
    "npu::dropout_with_byte_mask": dropout_with_byte_mask,
    "aten::randperm": randperm,
    "aten::randperm.out": randperm_out,
}
# Factory functions: they take no tensor, so that no backend key is dispatched to.
FACTORIES: dict[str, Callable[..., Any]] = {"npu::npu_dropout_gen_mask": dropout_gen_mask}
