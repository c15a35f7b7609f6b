"""npu_change_data_ptr, which torch_npu runs on the host: a tensor's storage becomes a part of another's."""

import pytest
import torch
import torch_npu
from torch_npu.utils import npu_combine_tensors


def test_combined_tensors_share_the_memory_of_one() -> None:
    parts = [torch.full((2, 3), 1.0).npu(), torch.full((4,), 2.0).npu()]
    seen = parts[0].view(-1)
    combined = npu_combine_tensors(parts)
    assert combined.tolist() == [1.0] * 6 + [2.0] * 4
    combined.mul_(3)
    assert parts[0].tolist() == [[3.0] * 3] * 2
    assert seen.tolist() == [3.0] * 6
    parts[1].fill_(5)
    assert (parts[1] + 1).tolist() == [6.0] * 4
    assert combined.tolist() == [3.0] * 6 + [5.0] * 4


def test_a_part_that_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Offsets overflow"):
        torch_npu.npu_change_data_ptr(torch.zeros(4).npu(), torch.zeros(4).npu(), 2)
