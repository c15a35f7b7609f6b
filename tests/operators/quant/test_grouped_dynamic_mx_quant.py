"""npu_grouped_dynamic_mx_quant on Ascend 950: calls, refusals, and what it shares with npu_dynamic_mx_quant."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.host.engine import use
from graph_quant.refusals import UndescribedError

from support.tensors import bf16, ends, f16, f32

E5M2, E4M3, E2M1 = 291, 292, 296


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def quantise(x: torch.Tensor, group_index: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    result: tuple[torch.Tensor, torch.Tensor] = torch_npu.npu_grouped_dynamic_mx_quant(x, group_index, **options)
    return result


def same_bits(ours: Any, theirs: Any) -> bool:
    pairs = list(zip(ours, theirs, strict=True))
    return all((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in pairs) and all(
        torch.equal(one.cpu().view(torch.uint8), other.cpu().view(torch.uint8)) for one, other in pairs
    )


CALLS = {
    "the default, float8_e5m2": (f16(70, 6), ends(40, 70), {}),
    "an empty group": (bf16(130, 5), ends(65, 65, 130), {"dst_type": E4M3, "scale_alg": 1}),
    "float4": (bf16(40, 6), ends(40), {"dst_type": E2M1, "round_mode": "floor"}),
}


@pytest.mark.parametrize("engine", ["eager", "inductor"])
@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str, engine: str) -> None:
    x, groups, options = CALLS[name]
    eager = quantise(x.npu(), groups.npu(), **options)
    for one, other in zip(eager, quantise(x.to("meta"), groups.to("meta"), **options), strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
    torch._dynamo.reset()
    with use(engine):
        compiled = torch.compile(lambda *args: quantise(*args, **options), backend="npu", fullgraph=True)
        assert same_bits(compiled(x.npu(), groups.npu()), eager)


@pytest.mark.parametrize("name", CALLS)
def test_groups_are_those_of_npu_dynamic_mx_quant(name: str) -> None:
    x, groups, options = CALLS[name]
    y, scales = quantise(x.npu(), groups.npu(), **options)
    start = 0
    for index, end in enumerate(groups.tolist()):
        if end > start:
            first = start // 64 + index
            pairs = -(-(end - start) // 64)
            part = torch_npu.npu_dynamic_mx_quant(x[start:end].npu(), axis=0, **{"dst_type": E5M2, **options})
            assert same_bits((y[start:end], scales[first : first + pairs]), part)
        start = end


X, GROUPS = f16(64, 6), ends(32, 64)
WRONG: list[tuple[str, torch.Tensor, torch.Tensor, dict[str, Any]]] = [
    ("x must be", f32(64, 6), GROUPS, {}),
    ("x must have 2", f16(2, 32, 6), GROUPS, {}),
    ("group_index must be", X, GROUPS.long(), {}),
    ("group_index.size(0)", X, ends(), {}),
    ("blocksize", X, GROUPS, {"blocksize": 64}),
    ("dst_type", X, GROUPS, {"dst_type": 290}),
    ("round_mode", X, GROUPS, {"round_mode": "floor"}),
    ("scale_alg", X, GROUPS, {"scale_alg": 2}),
    ("scale_alg", X, GROUPS, {"dst_type": E2M1, "scale_alg": 1}),
    ("x.size(-1)", f16(64, 5), GROUPS, {"dst_type": E2M1}),
]


@pytest.mark.parametrize(("message", "x", "groups", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, groups: torch.Tensor, options: dict[str, Any]) -> None:
    for device in ("npu", "meta"):
        with pytest.raises(Refusal, match="npu_grouped_dynamic_mx_quant: ") as refused:
            quantise(x.to(device), groups.to(device), **options)
        assert message in str(refused.value)


def test_ends_that_do_not_fit_are_refused() -> None:
    with pytest.raises(Refusal, match="the last value of group_index must equal 64"):
        quantise(X.npu(), ends(32, 63).npu())


def test_what_is_not_described_is_refused_by_name() -> None:
    with pytest.raises(UndescribedError, match="not described"):
        quantise(X.npu(), GROUPS.npu(), dst_type=E2M1, scale_alg=2)
