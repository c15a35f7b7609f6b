"""npu_advance_step_flashattn, which writes into four of its arguments: argument rules.

All tensors are int64. Without spec_token and accepted_num there are num_seqs sequences, of which the first num_queries,
fewer than num_seqs, advance. With both, every sequence advances, with 1 + spec tokens each. The kernel without them
handles at most one query, and one cleared entry, per vector core: A2 and A3 have at least 40, so more are refused.
"""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, operator
from graph_quant.meta.rules import Rules, Size
from graph_quant.reference.cache.advance_step import advance_step as reference
from torch import Tensor

CORES = 40


@operator("npu_advance_step_flashattn", reference=reference)
def advance_step(
    rules: Rules,
    input_tokens: Tensor,
    sampled_token_ids: Tensor,
    input_positions: Tensor,
    seq_lens: Tensor,
    slot_mapping: Tensor,
    block_tables: Tensor,
    num_seqs: int,
    num_queries: int,
    block_size: int,
    spec_token: Tensor | None,
    accepted_num: Tensor | None,
) -> Plan:
    """Check a call against the documented rules and return its plan."""
    written = {
        "input_tokens": input_tokens,
        "input_positions": input_positions,
        "seq_lens": seq_lens,
        "slot_mapping": slot_mapping,
    }
    for number, value in (("num_seqs", num_seqs), ("num_queries", num_queries), ("block_size", block_size)):
        rules.at_least(number, value, 1)
    rules.require(
        (spec_token is None) == (accepted_num is None),
        lambda: "accepted_num must be given with spec_token, and not without it, got one of them alone",
    )
    tokens = 1
    if spec_token is not None and accepted_num is not None:
        _check_speculation(rules, spec_token, accepted_num, num_seqs)
        tokens = 1 + spec_token.size(1)
        _check_table(rules, "sampled_token_ids", sampled_token_ids, "num_seqs", num_seqs)
    else:
        _check_queries(rules, num_seqs, num_queries)
        _check_table(rules, "sampled_token_ids", sampled_token_ids, "num_queries", num_queries)
    rules.equal("sampled_token_ids.size(1)", sampled_token_ids.size(1), "the tokens of a sequence", tokens)
    for name, tensor in written.items():
        rules.dtype(name, tensor, (torch.int64,))
        rules.rank(name, tensor, 1)
        rules.equal(f"{name}.size(0)", tensor.size(0), "the tokens of num_seqs sequences", num_seqs * tokens)
    _check_table(rules, "block_tables", block_tables, "num_seqs", num_seqs)
    rules.at_least("block_tables.size(1)", block_tables.size(1), 1)
    return Plan(())


def _check_table(rules: Rules, name: str, table: Tensor, rows_name: str, rows: Size) -> None:
    rules.dtype(name, table, (torch.int64,))
    rules.rank(name, table, 2)
    rules.equal(f"{name}.size(0)", table.size(0), rows_name, rows)


def _check_speculation(rules: Rules, spec_token: Tensor, accepted_num: Tensor, num_seqs: int) -> None:
    _check_table(rules, "spec_token", spec_token, "num_seqs", num_seqs)
    rules.at_least("spec_token.size(1)", spec_token.size(1), 1)
    rules.dtype("accepted_num", accepted_num, (torch.int64,))
    rules.rank("accepted_num", accepted_num, 1)
    rules.equal("accepted_num.size(0)", accepted_num.size(0), "num_seqs", num_seqs)


def _check_queries(rules: Rules, num_seqs: int, num_queries: int) -> None:
    rules.require(num_seqs > num_queries, lambda: f"num_seqs must be above num_queries, {num_queries}, got {num_seqs}")
    for name, count in (("num_queries", num_queries), ("num_seqs - num_queries", num_seqs - num_queries)):
        rules.require(
            count <= CORES,
            lambda name=name, count=count: (  # type: ignore[misc]
                f"{name} must be at most {CORES}, what the vector cores of every chip reach, got {count}"
            ),
        )
