"""npu_copy_and_expand_eagle_inputs: the inputs of a draft model, from the tokens of each request.

A request has the tokens from ``query_start_loc[r]`` to ``query_end_loc[r]``; those up to the next request were
rejected. Its part of the results has the valid tokens (without the first, if ``shift_input_ids``), the next token,
``num_padding_slots - 1`` tokens to draft in parallel, and a padding token for each rejected one. Positions count on
from the first; masks mark rejected tokens and those to draft. Elements that no request writes are zero.
"""

from __future__ import annotations

import torch
from graph_quant.meta import Plan, Result, Rules, operator
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_copy_and_expand_eagle_inputs"


def copy_and_expand_eagle_inputs(
    target_token_ids: Tensor,
    target_positions: Tensor,
    next_token_ids: Tensor,
    query_start_loc: Tensor,
    query_end_loc: Tensor,
    padding_token_id: int,
    parallel_drafting_token_id: int,
    num_padding_slots_per_request: int,
    shift_input_ids: bool,
    total_draft_tokens: int,
) -> tuple[Tensor, ...]:
    """Return ids, positions, both masks, the indices of new tokens and the rows of hidden states."""
    tokens, positions = target_token_ids.tolist(), target_positions.tolist()
    slots, requests = num_padding_slots_per_request, query_end_loc.size(0)
    ids, counted = (
        torch.zeros(total_draft_tokens, dtype=torch.int32),
        torch.zeros(total_draft_tokens, dtype=torch.int32),
    )
    rejected_mask = torch.zeros(total_draft_tokens, dtype=torch.int8)
    draft_mask = torch.zeros(total_draft_tokens, dtype=torch.int8)
    new, mapping = torch.zeros(requests * slots, dtype=torch.int32), torch.zeros(len(tokens), dtype=torch.int32)
    starts, ends, following = query_start_loc.tolist(), query_end_loc.tolist(), next_token_ids.tolist()
    for request in range(requests):
        start, end, after = starts[request], ends[request], starts[request + 1]
        skipped = 1 if shift_input_ids else 0
        rejected, valid = max(after - end - 1, 0), max(end - start + 1 - skipped, 0)
        first = start + request * (slots - skipped)
        if not 0 <= start < len(tokens) or after > len(tokens) or first + valid + slots + rejected > total_draft_tokens:
            raise Refusal(
                f"{_OP}: request {request} must lie in the {len(tokens)} tokens and total_draft_tokens, "
                f"{total_draft_tokens}, got tokens {start} to {after}, written from {first}"
            )
        source = tokens[start + skipped :] if shift_input_ids else tokens[start:after]
        copied = [source[min(index, len(source) - 1)] if source else 0 for index in range(valid)]
        row = [*copied, following[request], *[parallel_drafting_token_id] * (slots - 1), *[padding_token_id] * rejected]
        for result in (counted, rejected_mask, draft_mask):  # where parts overlap, the last request stays
            result[first : first + len(row)] = 0
        ids[first : first + len(row)] = torch.tensor(row, dtype=torch.int32)
        counts = range(positions[start], positions[start] + valid + slots)
        counted[first : first + valid + slots] = torch.tensor(counts, dtype=torch.int32)
        draft_mask[first + valid + 1 : first + valid + slots] = 1
        rejected_mask[first + valid + slots : first + len(row)] = 1
        new[request * slots : (request + 1) * slots] = torch.arange(first + valid, first + valid + slots)
        if shift_input_ids:
            mapping[start:after] = torch.arange(first, first + after - start)
    return ids, counted, rejected_mask, draft_mask, new, mapping


@operator(f"_C_ascend::{_OP}", reference=copy_and_expand_eagle_inputs)
def rules_of_copy_and_expand_eagle_inputs(
    rules: Rules,
    target_token_ids: Tensor,
    target_positions: Tensor,
    next_token_ids: Tensor,
    query_start_loc: Tensor,
    query_end_loc: Tensor,
    padding_token_id: int,  # noqa: ARG001
    parallel_drafting_token_id: int,  # noqa: ARG001
    num_padding_slots_per_request: int,
    shift_input_ids: bool,  # noqa: ARG001
    total_draft_tokens: int,
) -> Plan:
    """Check dtypes and sizes and return the plan."""
    rules.rank("target_token_ids", target_token_ids, 1)
    rules.rank("query_end_loc", query_end_loc, 1)
    tokens, requests = target_token_ids.size(0), query_end_loc.size(0)
    for name, tensor, size, like in (
        ("target_token_ids", target_token_ids, tokens, ""),
        ("target_positions", target_positions, tokens, "target_token_ids.size(0)"),
        ("next_token_ids", next_token_ids, requests, "query_end_loc.size(0)"),
        ("query_start_loc", query_start_loc, requests + 1, "query_end_loc.size(0) + 1"),
        ("query_end_loc", query_end_loc, requests, ""),
    ):
        rules.dtype(name, tensor, (torch.int32,))
        rules.shape(name, tensor, (size,), (like,))
    rules.at_least("num_padding_slots_per_request", num_padding_slots_per_request, 1)
    rules.at_least("total_draft_tokens", total_draft_tokens, 0)
    drafted = [Result((total_draft_tokens,), dtype) for dtype in (torch.int32, torch.int32, torch.int8, torch.int8)]
    new = Result((requests * num_padding_slots_per_request,), torch.int32)
    return Plan((*drafted, new, Result((tokens,), torch.int32)))
