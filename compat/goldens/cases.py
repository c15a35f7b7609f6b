"""Calls for goldens whose inputs depend on each other, or whose attributes have no defaults.

Other op types get uniform samples of one shape and the default attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from graph_quant.ge import Sizes
from torch import Tensor


@dataclass(frozen=True)
class Case:
    """One call of a golden and of the kernel of its op type.

    Attributes:
        inputs: The inputs by position; ``None`` for an optional one.
        attributes: The attributes by name.
        golden_inputs: The inputs of the golden, where they differ.
        results: The indices of the results that are compared; ``None`` for all.
    """

    inputs: tuple[Any, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    golden_inputs: tuple[Any, ...] | None = None
    results: tuple[int, ...] | None = None


class Samples:
    """Uniform samples of one dtype, from a generator of their own."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._generator = torch.Generator().manual_seed(1)

    def __call__(self, *shape: int, low: float = -2, high: float = 2) -> Tensor:
        """Samples of the dtype from ``low`` to ``high``."""
        return self.floats(*shape, low=low, high=high).to(self.dtype)

    def floats(self, *shape: int, low: float = -2, high: float = 2) -> Tensor:
        """The same in float32."""
        return torch.rand(shape, generator=self._generator) * (high - low) + low

    def integers(self, *shape: int, below: int, low: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
        """Integers from ``low`` up to ``below``."""
        return torch.randint(low, below, shape, generator=self._generator, dtype=dtype)


# A builder returns None for a dtype that the op type does not take.
Builder = Callable[[Samples], Case | None]
_LISTED = ((4, 32), (3, 5))


def _lists(new: Samples, count: int) -> tuple[list[Tensor], ...]:
    return tuple([new(*shape) for shape in _LISTED] for _ in range(count))


def _foreach(count: int, *, is_list: bool) -> Builder:
    """Lists of tensors and a number, or a number for each tensor."""

    def build(new: Samples) -> Case:
        numbers = torch.tensor([1.5, -0.75] if is_list else [1.5]).to(new.dtype)
        return Case((*_lists(new, count), numbers))

    return build


def _glu_grad(new: Samples) -> Case:
    x = new(4, 32)
    return Case((new(4, 16), x, torch.nn.functional.gelu(x[:, 16:].float()).to(new.dtype)))


def _deep_norm_grad(new: Samples) -> Case:
    x, gx = new(4, 32), new(4, 32)
    summed = x.float() * 0.3 + gx.float()
    mean = summed.mean(-1, keepdim=True)
    rstd = (summed.var(-1, unbiased=False, keepdim=True) + 1e-6).rsqrt()
    return Case((new(4, 32), x, gx, new(32), mean, rstd))


def _rms_norm_grad(new: Samples) -> Case:
    x = new(4, 32)
    rstd = (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    return Case((new(4, 32), x, rstd, new(32)))


def _nll_grad(new: Samples) -> Case:
    target, weight = new.integers(4, below=8, dtype=torch.int32), new(8, low=0.5)
    total = weight[target.long()].sum().reshape(1)
    return Case((new(4, 8), new(1), target, weight, total))


def _index_put(new: Samples) -> Case:
    rows, columns = torch.tensor([0, 3, 1]), torch.tensor([5, 0, 31])
    return Case((new(4, 32), new(3), _sizes(1, 1), _sizes(32, 1), [rows, columns]))


def _sizes(*values: int) -> Sizes:
    return Sizes(values, (len(values),), torch.int64)


def _grouped_add(new: Samples) -> Case | None:
    if new.dtype == torch.float32:
        return None
    ends = torch.tensor([3, 3, 8])
    x, weight, summed = new(8, 4), new(8, 6), new.floats(3, 4, 6)
    attributes = {"transpose_x": True, "transpose_weight": False, "group_type": 2, "group_list_type": 0}
    return Case((summed, x, weight, ends), attributes, golden_inputs=(x, weight, ends, summed))


def _gating_backward(new: Samples) -> Case:
    attributes = {"renorm": 1, "norm_type": 1, "routed_scaling_factor": 2.5}
    return Case(
        (new.floats(4, 16, low=0.1, high=0.9), new(4, 4), new.floats(4, 16).argsort(-1)[:, :4].to(torch.int32)),
        attributes,
    )


CASES: dict[str, Builder] = {
    "AdaptiveAvgPool2d": lambda new: Case((new(2, 3, 6, 8),), {"output_size": [3, 4]}),
    "AdaptiveAvgPool3d": lambda new: Case((new(2, 6, 8, 4, 3),), {"output_size": [3, 4, 2]}),
    "AddLayerNorm": lambda new: Case((new(4, 32), new(4, 32), new(32), new(32)), {"additional_output": True}),
    "AscendQuantV2": lambda new: Case((new(4, 32), new(32, low=1, high=40), new(32))),
    "AvgPool3D": lambda new: Case((new(2, 4, 6, 6, 3),), {"ksize": [2, 2, 2], "strides": [2, 2, 2], "pads": [0] * 6}),
    "BNInferGrad": lambda new: Case((new(2, 8, 3, 3), new.floats(8), new.floats(8, low=0.5))),
    "ClippedSwiglu": lambda new: Case((new(4, 32),)),
    "DeepNormGrad": _deep_norm_grad,
    "DynamicQuant": lambda new: Case((new(4, 32), new(32))),
    "DynamicQuantV2": lambda new: Case((new(4, 32), new(32))),
    "EmbeddingBag": lambda new: Case(
        (new(16, 8), new.integers(9, below=16, dtype=torch.int32), torch.tensor([0, 2, 5], dtype=torch.int32)),
        {"mode": "sum"},
        results=(0,),
    ),
    "EmbeddingDenseGrad": lambda new: Case(
        (new(4, 5, 8), new.integers(4, 5, below=16, dtype=torch.int32)), {"num_weights": 16}
    ),
    "ForeachAddScalar": _foreach(1, is_list=False),
    "ForeachAddScalarList": _foreach(1, is_list=True),
    "ForeachAddcmulScalar": _foreach(3, is_list=False),
    "ForeachAddcmulScalarList": _foreach(3, is_list=True),
    "ForeachDivScalar": _foreach(1, is_list=False),
    "ForeachDivScalarList": _foreach(1, is_list=True),
    "ForeachLerpScalar": _foreach(2, is_list=False),
    "ForeachMulScalar": _foreach(1, is_list=False),
    "ForeachMulScalarList": _foreach(1, is_list=True),
    "ForeachNorm": lambda new: Case((*_lists(new, 1), _sizes(2))),
    "ForeachSqrt": lambda new: Case(([new(4, 32, low=0), new(3, 5, low=0)],)),
    "GatherElements": lambda new: Case((new(4, 32), new.integers(3, 32, below=4))),
    "GatherV2": lambda new: Case((new(4, 32), new.integers(5, below=4), _sizes(0))),
    "GeGluGradV2": _glu_grad,
    "GeluQuant": lambda new: Case((new(4, 32), new(32, low=0.5))),
    "Index": lambda new: Case(
        (new(4, 32), _sizes(1, 1), _sizes(32, 1), [torch.tensor([0, 3, 1]), torch.tensor([5, 0, 31])]),
    ),
    "IndexPutV2": _index_put,
    "InplaceIndexAdd": lambda new: Case((new(8, 32), torch.tensor([0, 3, 1]), new(3, 32)), {"axis": 0}),
    "MaskedScatter": lambda new: Case((new(4, 32), new(4, 32) > 0, new(4, 32))),
    "MaxPool3DWithArgmaxV2": lambda new: Case(
        (new(2, 3, 4, 6, 6),), {"ksize": [2, 2, 2], "strides": [2, 2, 2], "pads": [0, 0, 0]}
    ),
    "MaxPoolWithArgmaxV3": lambda new: Case((new(2, 3, 6, 6),), {"ksize": [2, 2], "strides": [2, 2], "pads": [0, 0]}),
    "MseLossGrad": lambda new: Case((new(4, 32), new(4, 32), new(4, 32)), {"reduction": "none"}),
    "NLLLoss": lambda new: Case((new(4, 8), new.integers(4, below=8, dtype=torch.int32), new(8, low=0.5))),
    "NLLLossGrad": _nll_grad,
    "PRelu": lambda new: Case((new(4, 32), new(1))),
    "QuantUpdateScatter": lambda new: Case(
        (
            new.integers(4, 8, 32, low=-128, below=128, dtype=torch.int8),
            torch.tensor([1, 0, 3, 2], dtype=torch.int32),
            new(4, 2, 32),
            new(1, 1, 32, low=0.02, high=0.1),
        ),
        {"reduce": "update"},
    ),
    "Quantize": lambda new: Case(
        (new.floats(4, 32), new.floats(32, low=0.02, high=0.1), new.integers(32, below=9, dtype=torch.int32)),
        {"dtype": "torch.qint8"},
    ),
    "ReverseV2": lambda new: Case((new(4, 32), _sizes(1))),
    "RmsNormGrad": _rms_norm_grad,
    "Scatter": lambda new: Case(
        (new(4, 8, 32), torch.tensor([1, 0, 3, 2], dtype=torch.int32), new(4, 2, 32)),
        {"reduce": "update", "axis": -2},
    ),
    "ScatterElements": lambda new: Case((new(4, 32), new.integers(1, 32, below=4), new(1, 32))),
    "ScatterNd": lambda new: Case((torch.tensor([[1], [0], [3]]), new(3, 32), _sizes(4, 32))),
    "SwiGluGrad": lambda new: Case((new(4, 16), new(4, 32)), {"dim": -1}),
    "SwishGrad": lambda new: Case((new(4, 32), new(4, 32), new(4, 32)), {"scale": 1.0}),
    "TransposeBatchMatMul": lambda new: Case((new(4, 2, 32), new(4, 32, 16)), {"perm_y": (1, 0, 2)}),
    "npu_grouped_matmul_add": _grouped_add,
    "npu_moe_gating_top_k_backward": _gating_backward,
}
