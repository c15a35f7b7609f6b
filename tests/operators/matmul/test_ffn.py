"""npu_ffn of int8, which has no sum of floats, against its statement bit for bit."""

from typing import Any

import torch
from hypothesis import strategies as st

from operators.matmul.ffn import calls, expected
from support.call_strategies import run


def test_integers_are_exact() -> None:
    def agrees(call: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        args, options = call
        computed = torch.ops.npu.npu_ffn(*args, **options)
        assert torch.equal(computed.float().nan_to_num(), torch.from_numpy(expected(*args, **options)).nan_to_num())

    quantised: st.SearchStrategy[Any] = calls().filter(lambda call: call[0][0].dtype == torch.int8)
    run(agrees, quantised)
