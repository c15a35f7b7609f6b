"""npu_multi_head_latent_attention: one token per sequence over pages of latent keys, which are the values too.

Keys are latents concatenated with their rope part. Arithmetic as in ``atb``; the log-sum-exp is rounded to the dtype of
the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from graph_quant.refusals import Refusal
from torch import Tensor

from .arithmetic import Arithmetic
from .atb import checked_lengths, empty_workspace
from .paging import PagedTokens, checked_blocks
from .sequence_attention import CachedTokens, ScoreMod, attend

OP = "npu_multi_head_latent_attention"
BLOCK = 128


def _write(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: Sequence[int],
    qk_scale: float,
    output: Tensor,
    lse: Tensor | None,
    **_: Any,
) -> None:
    """Writes both results; those of a sequence without keys stay unchanged."""
    query, blocks = torch.cat([q_nope, q_rope], -1), ctkv.size(0)
    # A cache in the order of FRACTAL_NZ has blocks of (channels / 16, token, 16), any other of (token, head, channel).
    is_nz = ctkv.size(-1) == 16
    latents, ropes = (cache.unsqueeze(1) if is_nz else cache.flatten(2) for cache in (ctkv, k_rope))
    lengths = checked_lengths(OP, "context_lens", torch.tensor(context_lens), block_tables.size(1) * BLOCK)
    for sequence, length in enumerate(lengths):
        if length:
            block_ids = checked_blocks(OP, block_tables, sequence, length, BLOCK, blocks)
            latent, rope = (PagedTokens(cache, block_ids, length, 1) for cache in (latents, ropes))
            keys, values = CachedTokens([latent, rope]), CachedTokens([latent])
            result, sums = attend(
                query[sequence][:, None], keys, values, ScoreMod(), Arithmetic(qk_scale, output.dtype)
            )
            output[sequence] = result.squeeze(1).to(output.dtype)
            if lse is not None:
                lse[sequence] = sums.to(lse.dtype)


def write_output(output: Tensor, **arguments: Any) -> Tensor:
    """Writes the attention of each token over its own sequence."""
    _write(**arguments, output=output, lse=None)
    return output


def write_output_and_lse(has_lse: bool, output: Tensor, lse: Tensor, **arguments: Any) -> tuple[Tensor, Tensor]:
    """Writes the attention and its log-sum-exp (sequence, head, 1), which stays unchanged unless ``has_lse``."""
    _write(**arguments, output=output, lse=lse if has_lse else None)
    return output, lse


def compute_with_lse(
    q_nope: Tensor, context_lens: Sequence[int], has_lse: bool, **arguments: Any
) -> tuple[Tensor, Tensor | None]:
    """Both results. Sequences without keys are refused: the kernel leaves their results uninitialised."""
    for sequence, length in enumerate(context_lens):
        if length == 0:
            raise Refusal(f"{OP}: context_lens[{sequence}] must be above 0, or output given, got 0")
    output = torch.empty_like(q_nope)
    lse = q_nope.new_empty(*q_nope.shape[:2], 1) if has_lse else None
    _write(q_nope, context_lens=context_lens, output=output, lse=lse, **arguments)
    return output, lse


def compute(**arguments: Any) -> Tensor:
    """The attention alone."""
    return compute_with_lse(**arguments, has_lse=False)[0]


def workspace(q_nope: Tensor) -> Tensor:
    """An empty workspace."""
    return empty_workspace(q_nope)
