"""Calls of npu_apply_rotary_pos_emb. It overwrites its inputs, which its schema does not declare."""

from typing import Any

import torch
import torch_npu

from support.call_table import bad, good
from support.tensors import bf16, f16, i8

OP = "apply_rotary_pos_emb"


def call(make: Any = bf16, *leading: int, width: int = 64) -> tuple[torch.Tensor, ...]:
    return make(*leading, 4, width), make(*leading, 2, width), make(*leading, 1, width), make(*leading, 1, width)


A = call(bf16, 2, 3)
WRONG = [
    bad(OP, "query", "int8", i8(2, 3, 4, 64), *A[1:]),
    bad(OP, "query", "two dimensions", bf16(3, 64), *A[1:]),
    bad(OP, "key", "key of another dtype", A[0], f16(2, 3, 2, 64), *A[2:]),
    bad(OP, "query.size(-1)", "another width", *call(bf16, 2, 3, width=32)),
    bad(OP, "key.size(-1)", "keys of another width", A[0], bf16(2, 3, 2, 128), *A[2:]),
    bad(OP, "key.size(1)", "keys of other positions", A[0], bf16(2, 2, 2, 64), *A[2:]),
    bad(OP, "cos.size(-2)", "cosines for every head", *A[:2], bf16(2, 3, 4, 64), A[3]),
    bad(OP, "cos.size(-1)", "cosines wider than queries", *A[:2], bf16(2, 3, 1, 128), bf16(2, 3, 1, 128)),
    bad(OP, "sin.size(-1)", "sines wider than cosines", *call(bf16, 2, 3, width=128)[:2], A[2], bf16(2, 3, 1, 128)),
    bad(OP, "query.size(0)", "nothing", *call(bf16, 0, 3)),
    bad(OP, "query.size(-2)", "256 heads", f16(1, 1, 250, 64), f16(1, 1, 6, 64), *call(f16, 1, 1)[2:]),
    bad(OP, "query.size(-2)", "96 heads", bf16(1, 1, 92, 128), bf16(1, 1, 4, 128), *call(bf16, 1, 1, width=128)[2:]),
    bad(OP, "query.size(-2)", "77 heads", bf16(1, 41, 73, 128), bf16(1, 41, 4, 128), *call(bf16, 1, 41, width=128)[2:]),
    bad(OP, "layout", "BNSD", *A, "BNSD"),
    bad(OP, "rotary_mode", "interleave", *A, "BSND", "interleave"),
]
GOOD_950 = [
    good(OP, "heads before positions", bf16(2, 4, 3, 64), bf16(2, 2, 3, 64), *[bf16(2, 1, 3, 64)] * 2, "BNSD"),
    good(OP, "positions first", f16(3, 2, 4, 64), f16(3, 2, 2, 64), *[f16(3, 1, 1, 64)] * 2, "SBND"),
    good(OP, "interleave", *call(bf16, 2, 3), "BSND", "interleave"),
    good(OP, "quarter, of tokens", *call(f16, 5, width=40), "TND", "quarter"),
    good(OP, "a part of another width", *call(bf16, 2, 3, width=1024)[:2], *call(bf16, 1, 3, width=6)[2:]),
    good(OP, "256 heads", f16(1, 1, 250, 64), f16(1, 1, 6, 64), *call(f16, 1, 1)[2:]),
]
GOLDEN = {f"{OP}-bfloat16": (torch_npu.npu_apply_rotary_pos_emb, A)}
