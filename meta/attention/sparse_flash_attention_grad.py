"""npu_sparse_flash_attention_grad: the gradients of attention to chosen keys, as torch_npu's autograd asks for them.

Tensors are those of npu_sparse_flash_attention, keys one at a time in BSND or TND; d_out and out are like query, the
largest scores and sums of exponentials as that operator returns them. A token has 1024, 2048, ... 8192 indices.
"""

from __future__ import annotations

import torch
from graph_quant.meta.attention import sparse_rules
from graph_quant.meta.attention.sparse_flash_attention import HEADS, WIDTH, check_indices, check_parts
from graph_quant.meta.attention.sparse_rules import Form
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import Rules
from graph_quant.reference.attention.sequences import BSND
from graph_quant.reference.attention.sparse_flash_attention import LATENT
from graph_quant.reference.attention.sparse_flash_attention_grad import sparse_flash_attention_grad as reference
from torch import Tensor

CHOSEN = tuple(range(1024, 8193, 1024))
MOST_BATCHES = 256


@operator("npu_sparse_flash_attention_grad", reference=reference)
def sparse_flash_attention_grad(
    rules: Rules,
    query: Tensor,
    key: Tensor,
    value: Tensor | None,
    sparse_indices: Tensor,
    d_out: Tensor,
    out: Tensor,
    softmax_max: Tensor,
    softmax_sum: Tensor,
    scale_value: float,  # noqa: ARG001 - any
    sparse_block_size: int,
    query_rope: Tensor | None,
    key_rope: Tensor | None,
    actual_seq_qlen: Tensor | None,
    actual_seq_kvlen: Tensor | None,
    layout: str | None,
    sparse_mode: int | None,
    pre_tokens: int | None,
    next_tokens: int | None,
    attention_mode: int | None,
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    used_layout, mode = BSND if layout is None else layout, 3 if sparse_mode is None else sparse_mode
    tokens = [sparse_rules.UNLIMITED if part is None else part for part in (pre_tokens, next_tokens)]
    # torch_npu does not pass it on.
    rules.one_of("attention_mode", attention_mode, (None, 0, LATENT))
    rules.one_of("sparse_block_size", sparse_block_size, (1,), ", what is supported")
    rules.dtype("query", query, sparse_rules.HALVES)
    rules.dtype("key", key, (query.dtype,), ", the dtype of query")
    rules.one_of("layout", used_layout, (BSND, "TND"))
    for name, lengths in (("actual_seq_qlen", actual_seq_qlen), ("actual_seq_kvlen", actual_seq_kvlen)):
        rules.require(
            (lengths is None) == (used_layout == BSND),
            lambda name=name: f"{name} must be given in layout TND alone, got layout {used_layout}",  # type: ignore[misc]
        )
    form = Form(query, key, actual_seq_qlen, actual_seq_kvlen, None, used_layout, used_layout, kv="kv")
    sparse_rules.check(rules, form, WIDTH, mode, *tokens)
    rules.one_of("query.size(-2)", query.size(-2), HEADS)
    batches = query.size(0) if actual_seq_qlen is None else actual_seq_qlen.size(0)
    rules.require(batches <= MOST_BATCHES, lambda: f"batches must be at most {MOST_BATCHES}, got {batches}")
    check_parts(rules, query, key, value, query_rope, key_rope)
    check_indices(rules, query, sparse_indices)
    rules.one_of("sparse_indices.size(-1)", sparse_indices.size(-1), CHOSEN)
    for name, tensor in (("d_out", d_out), ("out", out)):
        rules.like(name, tensor, "query", query)
    sums = (*query.shape[:-3], 1, *query.shape[-3:-1])
    for name, tensor in (("softmax_max", softmax_max), ("softmax_sum", softmax_sum)):
        rules.dtype(name, tensor, (torch.float32,))
        rules.rank(name, tensor, len(sums))
        for dim, size in enumerate(sums):
            rules.equal(f"{name}.size({dim})", tensor.size(dim), "that of the forward call", size)
    parts = (query, key, value, query_rope, key_rope)
    return Plan(tuple(Result(tuple(part.shape), part.dtype) for part in parts if part is not None))
