"""Samples of npu_top_k_top_p_sample: kept tokens only, by their probabilities, reproducible by seed."""

import torch
import torch_npu


def drawn(seed: int, rows: int = 4096) -> torch.Tensor:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(rows, 4).contiguous().npu()
    k = torch.full((rows,), 3, dtype=torch.int32).npu()
    p = torch.full((rows,), 0.8).npu()
    generator = torch.Generator(device="npu").manual_seed(seed)
    options = {"post_sample": "multiNomial", "generator": generator}
    tokens, _ = torch_npu.npu_top_k_top_p_sample(logits, k, p, **options)
    return tokens.cpu()


def test_samples_follow_the_probabilities() -> None:
    # Of the three largest, 0.53 and 0.32 reach 0.8; of these the first has 0.625, with a deviation of 0.0076.
    share = torch.bincount(drawn(1), minlength=4) / 4096
    assert share[2:].sum() == 0
    assert abs(float(share[0]) - 0.625) < 5 * 0.0076
    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_sampling_advances_the_generator_of_the_device() -> None:
    logits, k, p = torch.zeros(64, 64).npu(), torch.zeros(64, dtype=torch.int32).npu(), torch.ones(64).npu()
    first, second = (
        torch_npu.npu_top_k_top_p_sample(logits, k, p, post_sample="multiNomial")[0].cpu() for _ in range(2)
    )
    assert not torch.equal(first, second)
