"""Binary operators with a Python number, in half precision: every variant gives the bits of the CPU."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from host.opinfo import ROUNDED_AS_IN_GRAPHS, ROUNDING

NUMBERS = (0.9, 65520.0, -3, 2**-30)
# xlogy and xlog1py are decomposed and keep the number in double precision, where the CPU rounds it.
KEEPS_NUMBER = ("xlogy", "special_xlogy", "special_xlog1py")
# Results that the CPU itself computes differently in a vector and in its remainder.
CLOSE = ("pow", "_foreach_pow", "float_power", "__pow__", "__rpow__", "atan2", "arctan2")


def _binary_operators() -> Iterator[str]:
    for name in {*dir(torch.ops.aten), *dir(torch._C._VariableFunctions)} - {"result_type"}:
        packet = getattr(torch.ops.aten, name, None)
        overloads = [] if packet is None or not hasattr(packet, "overloads") else packet.overloads()
        for overload in overloads:
            types = [str(argument.type) for argument in getattr(packet, overload)._schema.arguments[:2]]
            if types in (["Tensor", "number"], ["number", "Tensor"]):
                yield name.removesuffix("_") if not name.startswith("__") else name


OPERATORS = sorted({name for name in _binary_operators() if not name.startswith("_") or name.startswith("_foreach")})


def _variants(name: str, number: float) -> dict[str, Callable[[Tensor], Any]]:
    function = getattr(torch, name, None) or getattr(torch.special, name.removeprefix("special_"), None)
    variants: dict[str, Callable[[Tensor], Any]] = {}
    if name.startswith("_foreach_"):
        variants["list"] = lambda x: function([x, x[:3]], number)
        variants["list in place"] = lambda x: _in_place_list(getattr(torch, f"{name}_"), x, number)
        return variants
    if function is not None:
        variants["function"] = lambda x: function(x, number)
        variants["number first"] = lambda x: function(number, x)
        variants["out"] = lambda x: function(x, number, out=torch.empty_like(x))
        variants["out in a view"] = lambda x: function(x, number, out=torch.stack((x, x))[1])
    if hasattr(Tensor, name):
        variants["method"] = lambda x: getattr(x, name)(number)
    if hasattr(Tensor, f"{name}_"):
        variants["in place"] = lambda x: getattr(x.clone(), f"{name}_")(number)
        variants["strided in place"] = lambda x: getattr(x.repeat(2, 1).mT, f"{name}_")(number) if x.dim() else x
    return variants


def _in_place_list(function: Callable[..., Any], x: Tensor, number: float) -> list[Tensor]:
    tensors = [x.clone(), x[:3].clone()]
    function(tensors, number)
    return tensors


def _check(name: str, actual: Any, expected: Any, label: str) -> None:
    if not isinstance(expected, Tensor):
        for index, value in enumerate(expected):
            _check(name, actual[index], value, label)
        return
    bound = 0.0
    if ROUNDED_AS_IN_GRAPHS.fullmatch(name.replace("special_", "special.")) or name in (*CLOSE, *KEEPS_NUMBER):
        largest = expected[expected.isfinite()].abs().max().item() if expected.isfinite().any() else 0
        bound = ROUNDING.get(expected.dtype, 0) * largest
    torch.testing.assert_close(
        actual.cpu(), expected, rtol=0, atol=bound, equal_nan=True, msg=lambda text: f"{label}: {text}"
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_are_not_rounded_before_the_operation(name: str, dtype: torch.dtype) -> None:
    samples = torch.randn(67, generator=torch.Generator().manual_seed(1)).to(dtype)
    for number in NUMBERS[:1] if name in KEEPS_NUMBER else NUMBERS:
        for variant, call in _variants(name, number).items():
            for x in (samples, samples[0]):
                try:
                    expected = call(x)
                except Exception:
                    continue  # the CPU has no such variant
                _check(name, call(x.npu()), expected, f"{name} {variant} with {number} on {tuple(x.shape)}")
