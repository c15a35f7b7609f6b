"""npu_causal_conv1d_custom: a causal convolution over time of every channel, with the last tokens kept as a state.

A result is ``bias + sum(weight[j] * x[t - width + 1 + j])`` in float32, oldest token first, then SiLU with
``activation_mode`` 1, rounded once. Tokens before the first come from the line ``cache_indices`` of ``conv_state``
(zero in ``run_mode`` 0 unless ``initial_state_mode`` is set). The last ``width - 1`` tokens are written back there.
With ``num_accepted_tokens`` the window starts at the last accepted token, and the state keeps the two tokens before,
and all new ones. A sequence at ``pad_slot_id``, or at no line of the cache, writes nothing.

x is (tokens, channels), of sequences between the positions in ``query_start_loc``, or (sequences, tokens, channels).
"""

from __future__ import annotations

from itertools import pairwise

import torch
from graph_quant.meta import Plan, Rules, operator
from graph_quant.meta.attention.sparse_rules import HALVES
from graph_quant.reference.activation.activation_functions import swish
from graph_quant.refusals import Refusal
from torch import Tensor

_OP = "npu_causal_conv1d_custom"
_INDICES = (torch.int32, torch.int64)
_ALIGNED, _WIDEST, _KEPT = 16, 4, 2


def _windows(x: Tensor, starts: Tensor | None, run_mode: int) -> list[tuple[int, int]]:
    """The first token and the end of each sequence."""
    if x.dim() == 3:
        return [(sequence * x.size(1), (sequence + 1) * x.size(1)) for sequence in range(x.size(0))]
    if starts is None or (run_mode and starts.size(0) == x.size(0) + 1):
        return [(token, token + 1) for token in range(x.size(0))]
    return list(pairwise(starts.tolist()))


def causal_conv1d(
    output: Tensor,
    x: Tensor,
    weight: Tensor,
    conv_state: Tensor,
    bias: Tensor | None,
    query_start_loc: Tensor | None,
    cache_indices: Tensor | None,
    initial_state_mode: Tensor | None,
    num_accepted_tokens: Tensor | None,
    activation_mode: int,
    pad_slot_id: int,
    run_mode: int,
) -> Tensor:
    """Write the results and the states; return ``output``."""
    rows, results = x.reshape(-1, x.size(-1)), output.view(-1, x.size(-1))
    before, length = weight.size(0) - 1, conv_state.size(1)
    for sequence, (start, end) in enumerate(_windows(x, query_start_loc, run_mode)):
        if not 0 <= start <= rows.size(0) or end > rows.size(0):
            raise Refusal(f"{_OP}: query_start_loc must lie in the {rows.size(0)} tokens of x, got {start} to {end}")
        line = sequence if cache_indices is None else int(cache_indices.reshape(cache_indices.size(0), -1)[sequence, 0])
        if end <= start or (cache_indices is not None and line == pad_slot_id) or not 0 <= line < conv_state.size(0):
            continue
        offset = 0
        if num_accepted_tokens is not None:
            offset = min(max(int(num_accepted_tokens[sequence]) - 1, 0), length - before)
        has_state = bool(run_mode) or (initial_state_mode is not None and bool(initial_state_mode[sequence]))
        state = conv_state[line]
        history = state[offset : offset + before].clone() if has_state else state.new_zeros((before, x.size(-1)))
        window = torch.cat((history, rows[start:end]))
        results[start:end] = _convolve(window.float(), weight.float(), bias, activation_mode).to(x.dtype)
        if num_accepted_tokens is None or _KEPT + end - start > length:
            state[:before] = window[-before:]
        else:
            state[: _KEPT + end - start] = window[before - _KEPT :]
    return output


def _convolve(window: Tensor, weight: Tensor, bias: Tensor | None, activation_mode: int) -> Tensor:
    tokens = window.size(0) - weight.size(0) + 1
    total = torch.zeros((tokens, window.size(1))) if bias is None else bias.float().expand(tokens, -1)
    for tap in range(weight.size(0)):
        total = total + window[tap : tap + tokens] * weight[tap]
    return swish(total) if activation_mode else total


@operator(f"_C_ascend::{_OP}", reference=causal_conv1d)
def rules_of_causal_conv1d(
    rules: Rules,
    output: Tensor,
    x: Tensor,
    weight: Tensor,
    conv_state: Tensor,
    bias: Tensor | None,
    query_start_loc: Tensor | None,
    cache_indices: Tensor | None,
    initial_state_mode: Tensor | None,
    num_accepted_tokens: Tensor | None,
    activation_mode: int,
    pad_slot_id: int,  # noqa: ARG001
    run_mode: int,
) -> Plan:
    """Check a call by the extension's host code; it returns ``output``."""
    rules.one_of("activation_mode", activation_mode, (0, 1))
    rules.one_of("run_mode", run_mode, (0, 1))
    rules.rank("x", x, 2, 3)
    rules.dtype("x", x, HALVES)
    channels = x.size(-1)
    rules.require(channels % _ALIGNED == 0, lambda: f"x.size(-1) must be a multiple of {_ALIGNED}, got {channels}")
    rules.like("output", output, "x", x)
    rules.require(output.is_contiguous(), lambda: f"output must be contiguous, got {list(output.stride())}")
    for name, tensor, dims in (("weight", weight, 2), ("conv_state", conv_state, 3), ("bias_opt", bias, 1)):
        if tensor is not None:
            rules.dtype(name, tensor, (x.dtype,), ", the dtype of x")
            rules.rank(name, tensor, dims)
            rules.equal(f"{name}.size(-1)", tensor.size(-1), "x.size(-1)", channels)
    width = weight.size(0)
    rules.require(2 <= width <= _WIDEST, lambda: f"weight.size(0) must lie in [2, {_WIDEST}], got {width}")
    rules.at_least("conv_state.size(1)", conv_state.size(1), width - 1)
    if query_start_loc is not None:
        rules.dtype("query_start_loc_opt", query_start_loc, _INDICES)
        rules.rank("query_start_loc_opt", query_start_loc, 1)
        rules.at_least("query_start_loc_opt.size(0)", query_start_loc.size(0), 1)
        sequences = query_start_loc.size(0) - 1
    elif x.dim() == 2 and not run_mode:
        rules.refuse("query_start_loc_opt must be given for x of 2 dimensions in run_mode 0, got None")
    else:
        sequences = x.size(0)
    if x.dim() == 3:
        rules.equal("the sequences of query_start_loc_opt", sequences, "x.size(0)", x.size(0))
    if cache_indices is None:
        rules.at_least("conv_state.size(0)", conv_state.size(0), sequences)
    else:
        rules.dtype("cache_indices_opt", cache_indices, _INDICES)
        rules.rank("cache_indices_opt", cache_indices, 1, 2)
        rules.equal("cache_indices_opt.size(0)", cache_indices.size(0), "the sequences", sequences)
    for name, tensor, mode, dtypes in (
        ("initial_state_mode_opt", initial_state_mode, 0, (torch.bool, *_INDICES)),
        ("num_accepted_tokens_opt", num_accepted_tokens, 1, _INDICES),
    ):
        if tensor is not None:
            rules.require(run_mode == mode, lambda: f"{name} is for run_mode {mode}, leave it None, got a tensor")  # noqa: B023
            rules.dtype(name, tensor, dtypes)
            rules.shape(name, tensor, (sequences,), ("the sequences",))
    rules.require(
        num_accepted_tokens is None or width == _WIDEST,
        lambda: f"weight.size(0) must be {_WIDEST} with num_accepted_tokens_opt, got {width}",
    )
    return Plan(("output",))
