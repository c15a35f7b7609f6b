"""A graph has the bits of eager mode on the host: for all strides, also where ATen's kernels round by position."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch_npu
from torch.nn import functional

Call = Callable[[torch.Tensor], Any]

ONE: dict[str, Call] = {
    "gelu": functional.gelu,
    "gelu with tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "npu_gelu": lambda x: torch_npu.npu_gelu(x, approximate="none"),
    "npu_silu": torch_npu.npu_silu,
    "npu_geglu": lambda x: torch_npu.npu_geglu(x, approximate=0)[0],
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "softplus": functional.softplus,
    "softplus with numbers": lambda x: functional.softplus(x * 9, 0.3, 5.0),
    "mish": functional.mish,
    "celu": lambda x: functional.celu(x, 0.7),
    "hardsigmoid": functional.hardsigmoid,
    "logsigmoid": functional.logsigmoid,
    "exp2": torch.exp2,
    "erfc": torch.erfc,
    "a power": lambda x: x.abs() ** 0.3,
    "another power": lambda x: x.abs() ** 1.7,
    "rsqrt": lambda x: torch.rsqrt(x.abs()),
    "sinh": torch.sinh,
    "logit": lambda x: torch.logit(x.sigmoid()),
    "sinc": torch.sinc,
    "sum": lambda x: x.sum(-1),
    "norm": lambda x: x.norm(dim=-1),
    "lerp": lambda x: torch.lerp(x, x * 3, 0.3),
    "lerp by tensors": lambda x: torch.lerp(x, x * 3, x),
    "a sum with alpha": lambda x: torch.add(x, x * 3, alpha=0.3),
    "std": lambda x: x.std(-1),
}
ALL: dict[str, Call] = {
    "addmm of a matrix": lambda x: torch.addmm(x[:, :7], x, x[:20, :7]),
    "addmm in place": lambda x: x[:, :7].clone().addmm_(x, x[:20, :7]),
    "hypot in place": lambda x: x.clone().hypot_(x.flip(0)),
    "std with a fraction": lambda x: torch.std(x, 1, correction=1.3),
    "a norm with a bias alone": lambda x: functional.layer_norm(x, (20,), None, x[0]),
    "what a norm of groups keeps": lambda x: torch.native_group_norm(
        x[:36].reshape(2, 9, 40), None, None, 2, 9, 40, 3, 1e-5
    ),
    "a transposed convolution": lambda x: functional.conv_transpose1d(
        x[:36].reshape(2, 9, 40), x[:9, :12].reshape(9, 4, 3), x[0, :4], stride=2
    ),
    "samples of an image": lambda x: functional.grid_sample(
        x[:36, :20].reshape(1, 4, 9, 20), x[:10].tanh().reshape(1, 10, 10, 2), align_corners=False
    ),
    "a transform of two dimensions": lambda x: torch.view_as_real(torch.fft.fft2(x.float(), norm="ortho")),
    "the inverse of its half": lambda x: torch.fft.irfft2(torch.fft.rfft2(x.float()), norm="forward"),
    "numbers in a row": lambda x: torch.linspace(-1, 1, 9, dtype=x.dtype, device=x.device),
    "a row of fractions": lambda x: torch.arange(0, 3, 0.3, device=x.device),
    "times a number, added by index": lambda x: x.float().index_add(
        0, torch.tensor([3, 0, 3]).to(x.device), x[:3].float(), alpha=0.3
    ),
    "singular values": lambda x: torch.linalg.svdvals(x.float()),
    "xlogy": lambda x: torch.xlogy(x, x.abs()),
    "logaddexp": lambda x: torch.logaddexp(x, x * 2),
    "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 3:6]),
    "mv": lambda x: torch.mv(x, x[0]),
    "dot": lambda x: torch.dot(x[0], x[1]),
    "addmm": lambda x: torch.addmm(x[0, :7], x, x[:20, :7], beta=0.3),
    "addmm with both": lambda x: torch.addmm(x[:, :7], x, x[:20, :7], beta=0.3, alpha=0.7),
    "addmm of a vector": lambda x: torch.addmm(x[0, :7], x, x[:20, :7]),
    "addmm of a row": lambda x: torch.addmm(x[:1, :7], x, x[:20, :7]),
    "baddbmm": lambda x: torch.baddbmm(x[None, :, :7], x[None], x[None, :20, :7], alpha=0.3),
    "addmv": lambda x: torch.addmv(x[:, 0], x, x[0], alpha=0.7),
    "addr": lambda x: torch.addr(x, x[:, 0], x[0], alpha=0.3),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "std without a whole correction": lambda x: torch.std(x[:4, :4].abs() + 1, 1, correction=0),
    "group_norm": lambda x: functional.group_norm(x.reshape(1, 20, 37), 4),
    "prelu of a row": lambda x: functional.prelu(x[0], x[1, :1].abs()),
    "upsampling": lambda x: functional.interpolate(x[None, None], scale_factor=2.0, mode="bilinear"),
    "group_norm of channels that lie last": lambda x: functional.group_norm(
        x[:32].reshape(1, 4, 8, 20).permute(0, 3, 1, 2), 4
    ),
    "a convolution of channels that lay last": lambda x: functional.conv2d(
        x[:32].reshape(1, 4, 8, 20).permute(0, 3, 1, 2).contiguous(), x[:36].reshape(4, 20, 3, 3), padding=1
    ),
    "min": torch.min,
    "nan_to_num": torch.nan_to_num,
    "median": lambda x: x.median(-1),
    "kthvalue": lambda x: x.kthvalue(3, 0),
    "signbit": torch.signbit,
    "copysign": lambda x: torch.copysign(x, x.flip(0)),
    "fmax": lambda x: torch.fmax(x, -x),
    "ldexp": lambda x: torch.ldexp(x, torch.arange(20, device=x.device)),
    "a triangular system": lambda x: torch.linalg.solve_triangular(
        x[:20].float() / 9, x[:20, :3].float(), upper=False, unitriangular=True
    ),
    "one from the right": lambda x: torch.linalg.solve_triangular(
        x[:20].float() / 9 + 1, x[None, :, :20].float(), upper=True, left=False
    ),
    "dist": lambda x: torch.dist(x, x.flip(0)),
    "windows": lambda x: x.unfold(0, 3, 2),
    "a diagonal": lambda x: torch.diagonal_scatter(x, x[:20, 3]),
    "a padding by sizes": lambda x: functional.pad(x, (0, 40 - x.size(0), x.size(0) % 4, 1)),
    "a row of one": lambda x: x[0, 0].index_add(0, torch.zeros(1, dtype=torch.int64, device=x.device), x[0, 1]),
}
# Operands that are transposed copies, which a graph transposes by the node, and operands of higher rank.
PRODUCTS: dict[str, Call] = {
    "few columns": lambda x: x @ x[:9].t().contiguous(),
    "few columns that lie as they were": lambda x: x @ x[:9].t(),
    "one row": lambda x: x[:1] @ x.t().contiguous(),
    "one column": lambda x: x.t().contiguous().t() @ x[0],
    "columns of one row": lambda x: x[:, :1].contiguous().t() @ x,
    "more than a few": lambda x: x.repeat(2, 2) @ x.repeat(2, 2).t().contiguous(),
    "transposed on both sides": lambda x: x.t().contiguous() @ x.t().contiguous().t(),
    "added to a vector": lambda x: torch.addmm(x[0, :9], x, x[:9].t().contiguous()),
    "batches": lambda x: x @ x[:18].reshape(2, 9, 20).mT.contiguous(),
    "named dimensions": lambda x: torch.einsum("bik,nk->bni", x[:36].reshape(4, 9, 20), x[:7]),
}
SHIFTS: dict[str, Call] = {
    "left": lambda n: n << (n % 5),
    "right": lambda n: (-n) >> (n % 5),
    "by a number": lambda n: (n << 2) + (n >> 2),
    "of a number": lambda n: 2 << (n % 5),
    "by name": lambda n: torch.bitwise_left_shift(n, 3),
    "min": torch.min,
}


def _over_strides(calls: dict[str, Call]) -> dict[str, Call]:
    """Each call on a tensor, on every other column, on its first columns, and on its transpose."""
    views: dict[str, Call] = {
        "": lambda x: x,
        " of every other": lambda x: x[:, ::2],
        " of the first": lambda x: x[:, :14],
        " transposed": lambda x: x[:36].t(),
    }
    return {
        f"{name}{which}": lambda x, call=call, view=view: call(view(x))  # type: ignore[misc]
        for name, call in calls.items()
        for which, view in views.items()
    }


def _differing(calls: dict[str, Call], x: torch.Tensor, dynamic: bool) -> list[str]:
    torch._dynamo.reset()
    together = torch.compile(
        lambda x: [call(x) for call in calls.values()], fullgraph=True, dynamic=dynamic, backend="npu"
    )
    different = []
    for name, graph in zip(calls, together(x), strict=True):
        leaves = [torch.utils._pytree.tree_leaves(results) for results in (calls[name](x), graph)]
        for one, other in zip(*leaves, strict=True):
            same = one.dtype == other.dtype and one.shape == other.shape
            if not same or not torch.equal(one.nan_to_num(), other.nan_to_num()):
                different.append(name)
    return different


@pytest.mark.parametrize(("dtype", "dynamic"), [(torch.float32, True), (torch.bfloat16, False)])
def test_bits_do_not_depend_on_strides_or_alignment(dtype: torch.dtype, dynamic: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(37, 20).to(dtype).npu()
    assert not _differing({**_over_strides(ONE), **ALL}, x, dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_bits_do_not_depend_on_operand_layout(dtype: torch.dtype, dynamic: bool) -> None:
    torch.manual_seed(0)
    assert not _differing(PRODUCTS, torch.randn(37, 20).to(dtype).npu(), dynamic)


@pytest.mark.parametrize("turn", [False, True])
def test_experts_with_few_rows(turn: bool) -> None:
    def multiply(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        matrices = weight.mT if turn else weight.mT.clone(memory_format=torch.contiguous_format)
        return torch_npu.npu_grouped_matmul([x], [matrices], group_list=ends, split_item=3, group_type=0)[0]  # type: ignore[no-any-return]

    torch.manual_seed(0)
    inputs = torch.randn(9, 64).npu(), torch.randn(3, 40, 64).npu(), torch.tensor([1, 3, 9]).npu()
    torch._dynamo.reset()
    assert torch.equal(multiply(*inputs), torch.compile(multiply, fullgraph=True, backend="npu")(*inputs))


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_over_transposed_batches(bias: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(64, 40, bias=bias).npu()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: layer(x.transpose(0, 1)), fullgraph=True, backend="npu")
    x = torch.randn(2, 9, 64).npu()
    with torch.no_grad():
        assert torch.equal(layer(x.transpose(0, 1)), compiled(x))


def test_gradients_of_few_labels() -> None:
    layer, x = torch.nn.Linear(20, 9).npu(), torch.randn(2, 20).npu()
    torch._dynamo.reset()
    gradients = []
    for call in (layer, torch.compile(layer, fullgraph=True, backend="npu")):
        leaf = x.clone().requires_grad_()
        layer.zero_grad()
        call(leaf).square().sum().backward()
        gradients.append([leaf.grad, *(parameter.grad for parameter in layer.parameters())])
    assert all(map(torch.equal, *gradients))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
def test_shifts(dtype: torch.dtype) -> None:
    assert not _differing(SHIFTS, torch.arange(100).reshape(10, 10).to(dtype).npu(), True)


def test_gradients_of_a_graph() -> None:
    def call(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        activated = functional.gelu(x, approximate="tanh") + functional.silu(x) * functional.softplus(x)
        rows = functional.embedding(indices[:, 0], x) * functional.mish(x[:, :1])
        return activated.gather(1, indices).sum() + rows.sum() + functional.dropout(x, 1.0).sum()

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="npu")
    gradients = []
    for function in (call, compiled):
        x = torch.linspace(-3, 3, 40).reshape(5, 8).npu().requires_grad_()
        function(x, torch.tensor([[0, 7], [1, 1], [4, 2], [0, 3], [2, 2]]).npu()).backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)  # type: ignore[arg-type]


CONVOLUTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "of rows": (partial(functional.conv1d, padding=1), (2, 6, 20), (8, 6, 3)),
    "of planes": (partial(functional.conv2d, padding=1, stride=2), (2, 6, 9, 11), (8, 6, 3, 3)),
    "of each channel": (partial(functional.conv2d, padding=1, groups=6), (2, 6, 9, 11), (6, 1, 3, 3)),
    "of rooms": (partial(functional.conv3d, padding=1), (2, 4, 5, 6, 7), (8, 4, 3, 3, 3)),
    "transposed": (partial(functional.conv_transpose2d, padding=1, stride=2), (2, 6, 9, 11), (6, 8, 3, 3)),
    "transposed, with more": (
        partial(functional.conv_transpose2d, padding=1, stride=2, output_padding=1), (2, 6, 9, 11), (6, 8, 3, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("which", CONVOLUTIONS)
def test_convolutions_and_their_gradients(which: str, dtype: torch.dtype) -> None:
    call, size, weight_size = CONVOLUTIONS[which]
    torch.manual_seed(0)
    channels = weight_size[1] if "transposed" in which else weight_size[0]
    inputs = [torch.randn(value).to(dtype).npu() for value in (size, weight_size, (channels,))]
    torch._dynamo.reset()
    results = []
    for function in (call, torch.compile(call, fullgraph=True, backend="npu")):
        leaves = [value.clone().requires_grad_() for value in inputs]
        y = function(*leaves)
        (y * torch.linspace(-1, 1, y.numel()).to(y).reshape(y.shape)).sum().backward()
        results.append([y.detach(), *(value.grad for value in leaves)])
    assert all(map(torch.equal, *results))


def test_random_tensors_like_others() -> None:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        drawn = torch.multinomial(x, 3)
        again = torch.multinomial(x, 9, replacement=True)
        waits = torch.empty_like(x).exponential_(2.0)
        dice = torch.randint(3, 9, (500,), device=x.device)
        return torch.rand_like(x), torch.randn_like(x), torch.empty_like(x).normal_(5, 2), waits, dice, drawn, again

    torch._dynamo.reset()
    weights = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0, 9.0]).expand(400, 6).contiguous().npu()
    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend="npu")
    results = []
    for _ in range(2):
        torch.npu.manual_seed(1)
        results.append([tensor.cpu() for tensor in compiled(weights)])
    results.append([tensor.cpu() for tensor in compiled(weights)])
    assert all(map(torch.equal, results[0], results[1]))
    assert not any(map(torch.equal, results[0], results[2]))
    uniform, normal, moved, waits, dice, drawn, again = results[0]
    assert 0 <= uniform.min() < 0.01 < 0.99 < uniform.max() < 1
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    assert abs(moved.mean() - 5) < 0.2
    assert abs(moved.std() - 2) < 0.2
    assert waits.min() > 0
    assert abs(waits.mean() - 0.5) < 0.05
    assert set(dice.tolist()) == set(range(3, 9))
    assert all(len(set(row)) == 3 for row in drawn.tolist())
    assert not torch.isin(torch.cat([drawn, again], 1), torch.tensor([0, 4])).any()
    assert abs((again == 5).float().mean() - 9 / 15) < 0.05
