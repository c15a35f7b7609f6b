"""Dropout: masks sampled by the NPU's generator, their size and packing, and their effect."""

import re

import numpy as np
import pytest
import torch
import torch_npu
from graph_quant.refusals import Refusal

from support.tensors import f16, f32, i8


def bits(mask: torch.Tensor, count: int) -> torch.Tensor:
    """The mask unpacked by NumPy."""
    return torch.from_numpy(np.unpackbits(mask.cpu().numpy(), count=count, bitorder="little")).bool()


@pytest.mark.parametrize("count", [0, 1, 128, 129, 1000])
def test_mask_has_one_bit_per_element_padded_to_16_bytes(count: int) -> None:
    mask = torch_npu._npu_dropout_gen_mask(f32(1).npu(), [count], 0.3, 5, 4)
    assert (mask.dtype, mask.numel()) == (torch.uint8, (count + 127) // 128 * 16)


def test_share_of_dropped_elements_is_p() -> None:
    for p in (0.0, 0.1, 0.5, 0.9, 1.0):
        mask = torch_npu._npu_dropout_gen_mask(f32(1).npu(), [400, 500], p, 5, 4)
        # The standard deviation of a share of 200,000 samples is 2^-10.
        assert abs(float(bits(mask, 200_000).double().mean()) - (1 - p)) < 2**-7 * (0 < p < 1) + 2**-40


@pytest.mark.parametrize("x", [f32(3, 50), f16(7, 31)], ids=["float32", "float16"])
def test_kept_elements_and_their_gradient_are_scaled(x: torch.Tensor) -> None:
    torch.manual_seed(7)
    on_npu = x.npu().requires_grad_()
    y, mask = torch_npu._npu_dropout(on_npu, 0.25)
    kept = bits(mask, x.numel()).reshape(x.shape)
    assert 0.6 < float(kept.float().mean()) < 0.9
    assert torch.equal(y.detach().cpu(), torch.where(kept, x / 0.75, 0))
    gradient = f32(*x.shape).to(x.dtype)
    y.backward(gradient.npu())
    assert on_npu.grad is not None
    assert torch.equal(on_npu.grad.cpu(), torch.where(kept, gradient / 0.75, 0))
    again, same = torch_npu.npu_dropout_do_mask(on_npu.detach(), mask, 0.25)
    assert torch.equal(again, y.detach())
    assert torch.equal(same, mask)


def test_masks_follow_the_seed() -> None:
    x = f32(300).npu()

    def draw() -> list[torch.Tensor]:
        return [torch_npu._npu_dropout(x, 0.5)[1].cpu() for _ in range(2)]

    torch.manual_seed(3)
    first = draw()
    torch.npu.manual_seed(3)
    second = draw()
    assert all(map(torch.equal, first, second))
    assert not torch.equal(*first)
    generator = torch.npu.default_generators[0]
    generator.manual_seed(11)
    generator.set_offset(8)
    sampled = torch_npu._npu_dropout(x, 0.5)[1]
    assert torch.equal(sampled, torch_npu._npu_dropout_gen_mask(x, [300], 0.5, 11, 8))
    assert generator.get_offset() == 20


def test_mask_is_sampled_without_a_tensor() -> None:
    torch.npu.manual_seed(3)
    sampled = torch_npu.npu_dropout_gen_mask([3, 100], p=0.5, dtype=torch.float16, device=torch.device("npu"))
    again = torch_npu.npu_dropout_gen_mask([300], 0.5)
    torch.npu.manual_seed(3)
    expected = [torch_npu._npu_dropout(f32(300).npu(), 0.5)[1] for _ in range(2)]
    assert torch.equal(sampled, expected[0])
    assert torch.equal(again, expected[1])
    assert sampled.device.type == "npu"


def test_each_replay_samples_a_mask_without_a_tensor() -> None:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        mask = torch_npu.npu_dropout_gen_mask([300], 0.5)
    graph.replay()
    first = mask.clone()
    graph.replay()
    assert not torch.equal(mask, first)


def test_byte_mask() -> None:
    x = f32(9, 40).npu().requires_grad_()
    y = torch_npu.dropout_with_byte_mask(x, 0.5, True)
    y.sum().backward()
    assert x.grad is not None
    assert set(x.grad.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(y.detach(), x.detach() * x.grad)
    assert torch_npu.dropout_with_byte_mask(x, 0.5, False) is x
    assert not torch_npu.dropout_with_byte_mask(x, 1.0, True).any()
    _, mask = torch_npu._dropout_with_byte_mask(x, 0.5)
    assert mask.shape == x.shape
    assert set(mask.unique().tolist()) == {0, 1}


def test_each_replay_samples_a_new_mask() -> None:
    x = f32(300).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y, mask = torch_npu._npu_dropout(x, 0.5)
    masks = []
    for _ in range(2):
        torch.npu.manual_seed(4)
        graph.replay()
        graph.replay()
        masks.append(mask.clone())
    torch.npu.manual_seed(4)
    masks.append(torch_npu._npu_dropout(x, 0.5)[1])
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    assert torch.equal(y.cpu() != 0, bits(mask, 300))


WRONG = {
    "p": lambda: torch_npu._npu_dropout(f32(4).npu(), 1.5),
    "p without a tensor": lambda: torch_npu.npu_dropout_gen_mask([4], 1.5),
    "input": lambda: torch_npu._npu_dropout(i8(4).npu(), 0.5),
    "size": lambda: torch_npu._npu_dropout_gen_mask(f32(4).npu(), [-4], 0.5, 1, 0),
    "offset": lambda: torch_npu._npu_dropout_gen_mask(f32(4).npu(), [4], 0.5, 1, -4),
    "mask.size(0)": lambda: torch_npu.npu_dropout_backward(f32(200).npu(), i8(16).npu().view(torch.uint8), 0.5),
    "mask": lambda: torch_npu.npu_dropout_do_mask(f32(4).npu(), i8(16).npu(), 0.5),
}


@pytest.mark.parametrize("argument", WRONG)
def test_wrong_arguments_are_refused(argument: str) -> None:
    with pytest.raises(Refusal, match=f"dropout.*: {re.escape(argument.partition(' ')[0])} must"):
        WRONG[argument]()
