"""npu_top_k_top_p_sample: filters each row of logits by top-k, top-p and min-p, and samples one token.

k from 1 to ``ks_max``, rounded up to a multiple of four, and at most the vocabulary keeps the k largest, the first of
ties; any other k keeps all. Probabilities are then the softmax of the kept logits, in float32; with
``input_is_logits=False`` the input already holds probabilities. p below 1 keeps the smallest set, largest first, whose
sum reaches p; p of 0 or less keeps the largest alone, with probability 1. min_p below 1 keeps probabilities of at least
min_p times the largest, from 1 on the largest alone. The token is the most likely one that is left, or with ``q`` the
one with the largest ``probability / (|q| + eps)``, where columns of q belong to the tokens left in order, or a
multinomial sample.
"""

from __future__ import annotations

import torch
from graph_quant.reference.rng import uniform_open
from torch import Tensor

MULTINOMIAL = "multiNomial"
POST_SAMPLE_MODES = ("qSample", MULTINOMIAL, "None")
MOST_KEPT, STEP = 1024, 4


def _apply_top_k_top_p(row: Tensor, k: int, p: float, *, is_logits: bool) -> tuple[Tensor, Tensor]:
    """The tokens that k and p keep, and their probabilities; in the order of the row where both keep all."""
    if p <= 0:
        best = row.argmax().reshape(1)
        return best, torch.ones(1) if is_logits else row[best]
    if not k and p >= 1:
        return torch.arange(row.numel()), row.softmax(0) if is_logits else row
    values, tokens = row.sort(descending=True, stable=True)
    if k:
        values, tokens = values[:k], tokens[:k]
    probabilities = values.softmax(0) if is_logits else values
    if p < 1:
        count = int((probabilities.cumsum(0) < p).sum()) + 1
        probabilities, tokens = probabilities[:count], tokens[:count]
    return tokens, probabilities


def _apply_min_p(tokens: Tensor, probabilities: Tensor, min_p: float) -> tuple[Tensor, Tensor]:
    """The tokens that min_p keeps, and their probabilities."""
    if min_p <= 0:
        return tokens, probabilities
    if min_p >= 1:
        best = probabilities.argmax().reshape(1)
        return tokens[best], probabilities[best]
    kept = probabilities >= probabilities.max() * min_p
    return tokens[kept], probabilities[kept]


def top_k_top_p_sample(
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Tensor | None,
    eps: float | None,
    is_need_logits: bool | None,
    min_ps: Tensor | None,
    ks_max: int | None,
    input_is_logits: bool | None,
    post_sample: str | None,
    generator: torch.Generator | None,
) -> tuple[Tensor, Tensor]:
    """The token of each row, and the kept logits, the others -inf, or 0 for probabilities."""
    rows, width = logits.shape
    is_logits = input_is_logits is not False
    limit = min(MOST_KEPT, -(-(MOST_KEPT if ks_max is None else ks_max) // STEP) * STEP, width)
    least = [0.0] * rows if min_ps is None else min_ps.tolist()
    uniform = uniform_open(rows, generator) if post_sample == MULTINOMIAL else None
    tokens = torch.empty(rows, dtype=torch.int64)
    # Without is_need_logits a device leaves it uninitialised.
    kept_logits = torch.full((rows, width), -torch.inf if is_logits and is_need_logits else 0.0)
    for index, (row, k, p) in enumerate(zip(logits.float(), top_k.tolist(), top_p.tolist(), strict=True)):
        kept, scores = _apply_min_p(
            *_apply_top_k_top_p(row, k if 1 <= k <= limit else 0, p, is_logits=is_logits), least[index]
        )
        if is_need_logits:
            kept_logits[index, kept] = row[kept]
        if q is not None:
            scores = scores / (q[index, : scores.numel()].abs() + (1e-8 if eps is None else eps))
        best = scores.argmax() if uniform is None else _sample(scores, uniform[index])
        tokens[index] = kept[best]
    return tokens, kept_logits


def _sample(probabilities: Tensor, uniform: Tensor) -> Tensor:
    sums = probabilities.double().cumsum(0)
    return (sums <= uniform * sums[-1]).sum()
