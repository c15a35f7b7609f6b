"""A sample of PyTorch's operators against the CPU; `make coverage` runs all of them."""

import warnings

import pytest
import torch

from host.opinfo import DTYPES, check, op_db

# Every third operator: over 200 of them. One more dtype each, in turn: all ten of all operators take twice as long.
SAMPLE = op_db[::3]
AGAIN = (torch.float32,)
EXPLAINED = {
    "as_strided.partial_views": "the sample is a view into memory that does not move with it",
    "kthvalue": "of equal elements either may be named",
    "nn.functional.linear_cross_entropy.chunked": "chunks its sum by device type",
    "nn.functional.linear_cross_entropy.chunked_none": "chunks its sum by device type",
    "tensor_split": "PyTorch wants the indices on the CPU",
    "to_sparse": "sparse tensors are not supported",
}


def test_sample_is_large_enough() -> None:
    assert len(SAMPLE) >= 200


@pytest.mark.parametrize("index", range(len(SAMPLE)), ids=lambda index: SAMPLE[index].full_name)
def test_operator_matches_cpu(index: int) -> None:
    op = SAMPLE[index]
    others = [dtype for dtype in DTYPES if dtype in op.supported_dtypes("cpu") and dtype not in AGAIN]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = check(op, once=others and [others[index % len(others)]], again=AGAIN)
    if outcome.failure and outcome.name in EXPLAINED:
        pytest.xfail(EXPLAINED[outcome.name])
    assert outcome.failure is None
