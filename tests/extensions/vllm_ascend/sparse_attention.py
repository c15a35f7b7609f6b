"""Calls of the indexers and of sparse flash attention, which compute what torch_npu's operators compute."""

from typing import Any

import numpy as np
import torch
from operators.attention.sparse import (
    GOOD,
    INDEXER,
    KV_QUANT,
    QUANT,
    SPARSE,
    expected_attention,
    expected_indexer,
    expected_latent,
    expected_quantised,
)

from support.call_table import Call
from support.extension_calls import Case, Wrong

EMPTY = [np.zeros(0, np.float32)] * 2


def latent(query: Any, key: Any, value: Any, indices: Any, scale: float, **options: Any) -> list[Any]:
    return [*expected_latent(query, key, value, indices, scale, **options), *EMPTY]


STATED = {
    INDEXER: ("npu_lightning_indexer", expected_indexer, 0.0),
    QUANT: ("npu_lightning_indexer_quant", expected_quantised, 0.0),
    SPARSE: ("npu_sparse_flash_attention", expected_attention, 2.0**-7),
    KV_QUANT: ("npu_kv_quant_sparse_flash_attention", latent, 2.0**-7),
}


def case(call: Call) -> Case:
    name, expected, bound = STATED[call.op.removeprefix("npu_")]
    args, kwargs = call.args, dict(call.kwargs)
    if name == "npu_lightning_indexer_quant":  # the modes come after the lengths
        args = args[:5]
    if name == "npu_kv_quant_sparse_flash_attention":
        args, modes = args[:5], args[5:]
        kwargs |= dict(zip(("key_quant_mode", "value_quant_mode"), modes, strict=True))
    return Case(f"_C_ascend::{name}", call.label, args, kwargs, expected, (), bound)


VALID = [case(call) for call in GOOD]
BY_NAME = {valid.op: valid for valid in VALID}
A, L = BY_NAME["_C_ascend::npu_lightning_indexer"], BY_NAME["_C_ascend::npu_kv_quant_sparse_flash_attention"]
WRONG = [
    Wrong(A.op, "query must be torch.float16 or torch.bfloat16", (A.args[0].float(), *A.args[1:]), A.kwargs),
    Wrong(A.op, "sparse_mode must be", A.args, A.kwargs | {"sparse_mode": 2}),
    Wrong(L.op, "return_softmax_lse must be False, got True", L.args, L.kwargs | {"return_softmax_lse": True}),
    *(
        Wrong(op, "block_table must be", call.args, call.kwargs | {"block_table": torch.zeros(2, 2, dtype=torch.int64)})
        for op, call in BY_NAME.items()
        if "block_table" in call.kwargs
    ),
]
