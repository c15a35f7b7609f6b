"""The tensors that npu_moe_token_unpermute saves for its gradient: the rows if there are probabilities, else none."""

import pytest
import torch
import torch_npu


@pytest.mark.parametrize("weighted", [True, False])
def test_rows_are_saved_only_for_probabilities_and_not_copied(weighted: bool) -> None:
    rows = torch.randn(8, 16).npu().requires_grad_()
    positions = torch.arange(7, -1, -1, dtype=torch.int32).npu()
    probs = torch.rand(4, 2).npu().requires_grad_() if weighted else None
    kept: list[int] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        torch_npu.npu_moe_token_unpermute(rows, positions, probs=probs).sum().backward()
    assert (rows.untyped_storage().data_ptr() in kept) is weighted
    assert rows.grad is not None
    assert len(kept) == (3 if weighted else 1)
