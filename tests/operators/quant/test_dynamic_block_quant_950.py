"""npu_dynamic_block_quant on Ascend 950: calls, refusals, and the rule in NumPy."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import torch_npu
from graph_quant import chip
from graph_quant.chip import ASCEND_950
from graph_quant.destination import Refusal
from graph_quant.host.engine import use
from graph_quant.narrow_floats import decode_hif8, encode_hif8
from graph_quant.refusals import UndescribedError

from support.tensors import bf16, f16, f32, f64

HIF8 = 290
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
CALLS: dict[str, tuple[torch.Tensor, dict[str, Any]]] = {
    "int8": (f16(3, 200), {}),
    "float8 of rows": (bf16(3, 200), {"dst_type": E4M3}),
    "float8 of blocks": (f32(2, 130, 200), {"dst_type": E5M2, "row_block_size": 128}),
    "a bound": (f16(70, 100), {"dst_type": E4M3, "min_scale": 300.0, "row_block_size": 64, "col_block_size": 64}),
    "HiFloat8": (bf16(3, 200), {"dst_type": HIF8, "round_mode": "round", "dst_type_max": 15.0}),
    "zeros": (torch.zeros(2, 130).half(), {"dst_type": 292, "row_block_size": 512, "col_block_size": 192}),
}


@pytest.fixture(autouse=True)
def on_950() -> Iterator[None]:
    with chip.use(ASCEND_950):
        yield


def quantise(x: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    result: tuple[torch.Tensor, torch.Tensor] = torch_npu.npu_dynamic_block_quant(x, **options)
    return result


def same_bits(ours: Any, theirs: Any) -> bool:
    pairs = list(zip(ours, theirs, strict=True))
    return all((one.dtype, one.shape) == (other.dtype, other.shape) for one, other in pairs) and all(
        torch.equal(one.cpu().view(torch.uint8), other.cpu().view(torch.uint8)) for one, other in pairs
    )


@pytest.mark.parametrize("engine", ["eager", "inductor"])
@pytest.mark.parametrize("name", CALLS)
def test_graphs_and_meta_tensors_agree_with_eager_execution(name: str, engine: str) -> None:
    x, options = CALLS[name]
    eager = quantise(x.npu(), **options)
    for one, other in zip(eager, quantise(x.to("meta"), **options), strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
    torch._dynamo.reset()
    with use(engine):
        compiled = torch.compile(lambda x: quantise(x, **options), backend="npu", fullgraph=True)
        assert same_bits(compiled(x.npu()), eager)


def test_captured_graphs_agree_with_eager_execution() -> None:
    x, options = CALLS["HiFloat8"]
    npu = x.npu()
    graph = torch.npu.NPUGraph()  # type: ignore[attr-defined]
    with torch.npu.graph(graph):  # type: ignore[attr-defined]
        captured = quantise(npu, **options)
    graph.replay()
    assert same_bits(captured, quantise(npu, **options))


X = f16(2, 64)
WRONG: list[tuple[str, torch.Tensor, dict[str, Any]]] = [
    ("x must be", f64(2, 64), {}),
    ("x must have 2 to 3", f16(64), {}),
    ("x.size(0)", f16(0, 64), {}),
    ("min_scale", X, {"min_scale": -1.0}),
    ("dst_type must be one of", X, {"dst_type": 296}),
    ("round_mode", X, {"dst_type": HIF8}),
    ("round_mode", X, {"dst_type": E4M3, "round_mode": "round"}),
    ("row_block_size", X, {"dst_type": E4M3, "row_block_size": 32}),
    ("col_block_size", X, {"dst_type": E4M3, "col_block_size": 512}),
    ("dst_type_max", X, {"dst_type": E4M3, "dst_type_max": 15.0}),
    ("dst_type_max", X, {"dst_type": HIF8, "round_mode": "round", "dst_type_max": 16.0}),
]


@pytest.mark.parametrize(("message", "x", "options"), WRONG)
def test_wrong_calls_are_refused(message: str, x: torch.Tensor, options: dict[str, Any]) -> None:
    for device in ("npu", "meta"):
        with pytest.raises(Refusal, match="npu_dynamic_block_quant: ") as refused:
            quantise(x.to(device), **options)
        assert message in str(refused.value)


def test_int8_that_may_overflow_is_refused_by_name() -> None:
    with pytest.raises(UndescribedError, match="not described for Ascend 950"):
        quantise(X.npu(), min_scale=2.0)


TOPS = {torch.int8: 127.0, E4M3: 448.0, E5M2: 57344.0, HIF8: 32768.0}
TYPES = {E4M3: ml_dtypes.float8_e4m3fn, E5M2: ml_dtypes.float8_e5m2}


@pytest.mark.parametrize("kind", TOPS, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (64, 256)])
def test_the_rule_in_numpy(kind: Any, rows: int, columns: int) -> None:
    x = bf16(2, 70, 130)
    x[0, 0, :128] *= 1000
    mode = "round" if kind == HIF8 else "rint"
    bound = 0.0 if kind == torch.int8 else 0.5
    options = {"dst_type": kind, "round_mode": mode, "row_block_size": rows, "col_block_size": columns}
    y, scales = quantise(x.npu(), min_scale=bound, **options)
    values = x.float().numpy()
    for index in np.ndindex(*scales.shape):
        batch, row, column = index
        block = values[batch, row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
        scale = np.abs(block).max() / np.float32(TOPS[kind])
        if bound:
            scale = min(scale, np.float32(1) / np.float32(bound))
        assert scales[index].item() == scale
        quotient = np.clip(block / scale, -TOPS[kind], TOPS[kind])
        part = y[batch, row * rows : (row + 1) * rows, column * columns : (column + 1) * columns].cpu()
        if kind == HIF8:
            expected = decode_hif8(encode_hif8(torch.from_numpy(quotient))).numpy()
            np.testing.assert_array_equal(decode_hif8(part).numpy(), expected)
        else:
            expected = quotient.astype(TYPES[kind]).astype(np.float32) if kind in TYPES else np.rint(quotient)
            np.testing.assert_array_equal(part.float().numpy(), expected)


@pytest.mark.parametrize("value", [torch.inf, torch.nan])
def test_blocks_that_are_not_finite_become_zeros(value: float) -> None:
    x = torch.ones(2, 256).half()
    x[0, 3] = value
    y, scales = quantise(x.npu(), dst_type=E4M3, min_scale=1.0)
    assert y.cpu().float()[0, :128].unique().tolist() == [0.0]
    assert not scales[0, 0].isfinite()
    assert y.cpu().float()[1].unique().tolist() == [448.0]
