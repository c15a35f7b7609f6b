"""Triton kernels on the host NPU, compared with torch. They need the extra ``triton``."""

import numpy as np
import pytest
import torch
import torch_npu  # noqa: F401

triton = pytest.importorskip("triton", reason="triton is not installed (the extra `triton`)")
tl = triton.language

from triton.language.extra.cann import libdevice  # noqa: E402
from triton.language.extra.cann.extension import extract_slice, get_element, insert_slice  # noqa: E402

FLOATS = (torch.float32, torch.float16, torch.bfloat16)


@triton.jit
def multiply_add(x, y, out, n, factor, SIZE: tl.constexpr):  # noqa: N803
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = i < n
    product = tl.load(x + i, mask=mask, other=0.0) * tl.load(y + i, mask=mask)
    tl.store(out + i, product + factor, mask=mask)


@triton.jit
def add_in_place(x, n, SIZE: tl.constexpr):  # noqa: N803
    i = tl.arange(0, SIZE)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@triton.jit
def normalise(x, out, stride, columns, epsilon, SIZE: tl.constexpr):  # noqa: N803
    row, i = tl.program_id(0), tl.arange(0, SIZE)
    values = tl.load(x + row * stride + i, mask=i < columns, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(values * values) / columns + epsilon)
    tl.store(out + row * columns + i, (values * scale).to(out.dtype.element_ty), mask=i < columns)


@triton.jit
def multiply_matrices(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):  # noqa: N803
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    product = tl.dot(tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + n[None, :]))
    tl.store(out + m[:, None] * N + n[None, :], product)


@triton.jit
def rotate_halves(x, out, SIZE: tl.constexpr):  # noqa: N803
    i = tl.arange(0, SIZE)
    values = tl.load(x + i)
    first = extract_slice(values, offsets=(0,), sizes=(SIZE // 2,), strides=(1,))
    second = extract_slice(values, offsets=(SIZE // 2,), sizes=(SIZE // 2,), strides=(1,))
    rotated = insert_slice(ful=values, sub=-second, offsets=(0,), sizes=(SIZE // 2,), strides=(1,))
    rotated = insert_slice(ful=rotated, sub=first, offsets=(SIZE // 2,), sizes=(SIZE // 2,), strides=(1,))
    tl.store(out + i, rotated + get_element(values, (0,)))


@triton.jit
def quantise(x, out, SIZE: tl.constexpr):  # noqa: N803
    i = tl.arange(0, SIZE)
    rounded = libdevice.rint(tl.load(x + i))
    tl.store(out + i, rounded.cast(tl.int8, overflow_mode="saturate"))


@triton.jit
def outside(x, SIZE: tl.constexpr):  # noqa: N803
    extract_slice(tl.load(x + tl.arange(0, SIZE)), (2,), (SIZE,), (1,))


@triton.jit
def find_bits(x, SIZE: tl.constexpr):  # noqa: N803
    libdevice.popc(tl.load(x + tl.arange(0, SIZE)))


def launch(x: torch.Tensor, y: torch.Tensor, size: int = 48) -> torch.Tensor:
    out = torch.empty_like(x)
    multiply_add[(triton.cdiv(x.numel(), size),)](x, y, out, x.numel(), 0.1, SIZE=size, multibuffer=True)
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [48, 64])
def test_elements_have_the_bits_of_torch(dtype: torch.dtype, size: int) -> None:
    x, y = (torch.randn(100, generator=torch.Generator().manual_seed(i)).to(dtype).npu() for i in (0, 1))
    # A number of a launch is a float32, to which Triton promotes a half.
    assert torch.equal(launch(x, y, size), ((x * y).float() + 0.1).to(dtype))


def test_strided_rows() -> None:
    x = torch.randn(5, 96).bfloat16().npu()[:, :40]
    out = torch.empty(5, 40, dtype=torch.bfloat16, device="npu")
    normalise[(5,)](x, out, x.stride(0), 40, 1e-6, SIZE=40)
    expected = torch.nn.functional.rms_norm(x.cpu().double(), (40,), eps=1e-6)
    assert torch.allclose(out.cpu().double(), expected, rtol=2**-8)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_of_matrices(dtype: torch.dtype) -> None:
    a, b = torch.randint(-8, 8, (16, 24)).to(dtype).npu(), torch.randint(-8, 8, (24, 8)).to(dtype).npu()
    out = torch.empty(16, 8, device="npu")
    multiply_matrices[(1,)](a, b, out, 16, 8, 24)
    assert torch.equal(out, a.float() @ b.float())


def test_parts_of_blocks() -> None:
    x = torch.arange(1.0, 13, device="npu").bfloat16()
    out = torch.empty_like(x)
    rotate_halves[(1,)](x, out, SIZE=12)
    assert torch.equal(out, torch.cat([-x[6:], x[:6]]) + 1)
    with pytest.raises(RuntimeError, match=r"kernel outside, program \(0, 0, 0\): extract_slice: offsets.* must lie"):
        outside[(1,)](x, SIZE=12)


def test_conversions() -> None:
    x = torch.tensor([-300, -1.5, -0.5, 0.5, 1.5, 2.5, 126.6, 1e9], device="npu")
    out = torch.empty(8, dtype=torch.int8, device="npu")
    quantise[(1,)](x, out, SIZE=8)
    assert out.tolist() == [-128, -2, 0, 0, 2, 2, 127, 127]
    with pytest.raises(RuntimeError, match=r"libdevice\.popc is not supported on the host NPU"):
        find_bits[(1,)](x, SIZE=8)


def test_launches_are_recorded_in_captured_graphs() -> None:
    x, y, count = torch.ones(50, device="npu"), torch.full((50,), 2.0, device="npu"), torch.zeros(3, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = launch(x, y) * 10
        add_in_place[(1,)](count, 3, SIZE=5)
    assert count.tolist() == [0, 0, 0]
    for value in (3.0, 4.0):
        x.fill_(value)
        graph.replay()
        assert torch.equal(result, (x * y + 0.1) * 10)
    assert count.tolist() == [2, 2, 2]


def test_npugraph_ex_records_the_launches_of_an_operator() -> None:
    library = torch.library.Library("triton_test", "FRAGMENT")
    library.define("multiply_add(Tensor x, Tensor y) -> Tensor")
    library.impl("multiply_add", launch, "PrivateUse1")
    library.impl("multiply_add", lambda x, _: torch.empty_like(x), "Meta")
    compiled = torch.compile(
        lambda x, y: torch.ops.triton_test.multiply_add(x + 1, y) * 2, backend="npugraph_ex", fullgraph=True
    )
    for seed in range(3):
        x, y = (torch.randn(50, generator=torch.Generator().manual_seed(seed)).npu() for _ in range(2))
        assert torch.equal(compiled(x, y), ((x + 1) * y + 0.1) * 2)


def test_the_first_configuration_is_used() -> None:
    tuned = triton.autotune([triton.Config({"SIZE": 64}), triton.Config({"SIZE": 128})], key=["n"])(add_in_place)
    x = torch.zeros(60, device="npu")
    tuned[lambda meta: (triton.cdiv(60, meta["SIZE"]),)](x, 60)
    assert x.unique().tolist() == [1], "no configuration ran for a measurement"


def test_the_driver_reports_the_cores() -> None:
    driver = triton.runtime.driver.active
    assert driver.utils.get_device_properties(0) == {"num_aicore": 20, "num_vectorcore": 40}
    assert [backend.driver.is_active() for name, backend in triton.backends.backends.items() if name == "ascend"] == [
        True
    ]


def test_fewer_cores_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = triton.runtime.driver.active.utils
    monkeypatch.setenv("GRAPH_QUANT_TRITON_CORES", "2")
    assert utils.get_device_properties(0) == {"num_aicore": 2, "num_vectorcore": 4}
    for wrong in ("0", "-1", "two"):
        monkeypatch.setenv("GRAPH_QUANT_TRITON_CORES", wrong)
        with pytest.raises(ValueError, match="GRAPH_QUANT_TRITON_CORES must be a number from 1, got "):
            utils.get_device_properties(0)


def test_what_a_device_refuses() -> None:
    x = torch.zeros(4)
    with pytest.raises(ValueError, match="triton kernel add_in_place: x must be on an NPU, got a tensor on cpu"):
        add_in_place[(1,)](x, 4, SIZE=4)
    with pytest.raises(RuntimeError, match="fp8e5 is for Ascend 950"):
        add_in_place[(1,)](x.npu().to(torch.float8_e5m2), 4, SIZE=4)
    with pytest.raises(RuntimeError, match="arange's end argument must be greater"):
        add_in_place[(1,)](x.npu(), 4, SIZE=0)
    assert np.geterr()["over"] == "warn"


def test_a_traced_function_breaks_at_a_launch() -> None:
    x, y = torch.ones(50, device="npu"), torch.full((50,), 2.0, device="npu")
    compiled = torch.compile(lambda x, y: launch(x + 1, y) * 2, backend="npugraph_ex")
    for value in (1.0, 5.0):
        x.fill_(value)
        assert torch.equal(compiled(x, y), ((x + 1) * y + 0.1) * 2)
