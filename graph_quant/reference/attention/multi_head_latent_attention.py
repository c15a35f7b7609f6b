"""npu_multi_head_latent_attention: one token of each sequence over pages of latent keys, which are the values too.

Keys are latents beside their rotated part. Arithmetic as in ``atb``; the logarithm of the sum of exponentials is
rounded to the dtype of the result.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    query: tuple[Tensor, Tensor],
    caches: tuple[Tensor, Tensor],
    block_tables: Tensor,
    context_lens: Sequence[int],
    scale: float,
    output: Tensor,
    lse: Tensor | None,
) -> None:
    """Writes both results; those of a sequence without keys stay as they are."""
    whole, blocks = torch.cat(query, -1), caches[0].size(0)
    # In parts of 16 channels a block is (part, token, channel), and without them (token, head, channel).
    in_parts = caches[0].size(-1) == 16
    latents, rotated = (each.unsqueeze(1) if in_parts else each.flatten(2) for each in caches)
    lengths = checked_lengths(OP, "context_lens", torch.tensor(context_lens), block_tables.size(1) * BLOCK)
    for place, length in enumerate(lengths):
        if length:
            chosen = checked_blocks(OP, block_tables, place, length, BLOCK, blocks)
            latent, turned = (PagedTokens(each, chosen, length, 1) for each in (latents, rotated))
            keys, values = CachedTokens([latent, turned]), CachedTokens([latent])
            found, sums = attend(whole[place][:, None], keys, values, ScoreMod(), Arithmetic(scale, output.dtype))
            output[place] = found.squeeze(1).to(output.dtype)
            if lse is not None:
                lse[place] = sums.to(lse.dtype)


def into(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: Sequence[int],
    qk_scale: float,
    output: Tensor,
) -> Tensor:
    """Writes the attention of each token over its own sequence."""
    _write((q_nope, q_rope), (ctkv, k_rope), block_tables, context_lens, qk_scale, output, None)
    return output


def into_both(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: Sequence[int],
    qk_scale: float,
    has_lse: bool,
    output: Tensor,
    lse: Tensor,
) -> tuple[Tensor, Tensor]:
    """Writes the attention and the logarithms (sequence, head, 1), which stay as they are unless ``has_lse``."""
    given = (q_nope, q_rope), (ctkv, k_rope), block_tables, context_lens, qk_scale
    _write(*given, output, lse if has_lse else None)
    return output, lse


def compute_both(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: Sequence[int],
    qk_scale: float,
    has_lse: bool,
) -> tuple[Tensor, Tensor | None]:
    """Both results; a sequence without keys has none, which the kernel leaves as memory was."""
    for place, length in enumerate(context_lens):
        if length == 0:
            raise Refusal(f"{OP}: context_lens[{place}] must be above 0, or output given, got 0")
    output = torch.empty_like(q_nope)
    lse = q_nope.new_empty(*q_nope.shape[:2], 1) if has_lse else None
    _write((q_nope, q_rope), (ctkv, k_rope), block_tables, context_lens, qk_scale, output, lse)
    return output, lse


def compute(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    context_lens: Sequence[int],
    qk_scale: float,
) -> Tensor:
    """The attention alone."""
    return compute_both(q_nope, q_rope, ctkv, k_rope, block_tables, context_lens, qk_scale, has_lse=False)[0]


def no_room(q_nope: Tensor) -> Tensor:
    """A workspace of no bytes: the host computes without one."""
    return empty_workspace(q_nope)
