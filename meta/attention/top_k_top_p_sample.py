"""npu_top_k_top_p_sample: rules and results. logits is (rows, vocabulary); the rest one a row."""

from __future__ import annotations

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules
from graph_quant.reference.attention.top_k_top_p_sample import MULTINOMIAL, POST_SAMPLE_MODES
from graph_quant.reference.attention.top_k_top_p_sample import top_k_top_p_sample as reference
from torch import Tensor

MOST_WORDS = 1 << 20


@operator("npu_top_k_top_p_sample", reference=reference)
def top_k_top_p_sample(
    rules: Rules,
    logits: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    q: Tensor | None,
    eps: float | None,  # noqa: ARG001 - any
    is_need_logits: bool | None,  # noqa: ARG001
    top_k_guess: int | None,  # noqa: ARG001 - it decides how, not what
    min_ps: Tensor | None,
    ks_max: int | None,
    input_is_logits: bool | None,  # noqa: ARG001
    post_sample: str | None,
    generator: torch.Generator | None,  # noqa: ARG001 - that of the device, or another
) -> Plan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.dtype("logits", logits, FLOATS)
    rules.rank("logits", logits, 2)
    rules.not_empty("logits", logits)
    words = logits.size(1)
    rules.require(words <= MOST_WORDS, lambda: f"logits.size(1) must be at most {MOST_WORDS}, got {words}")
    limits = {"top_k": (top_k, torch.int32), "top_p": (top_p, logits.dtype)}
    if min_ps is not None:
        limits["min_ps"] = (min_ps, logits.dtype)
    for name, (limit, dtype) in limits.items():
        rules.dtype(name, limit, (dtype,))
        rules.rank(name, limit, 1)
        rules.equal(f"{name}.size(0)", limit.size(0), "logits.size(0)", logits.size(0))
    rules.require(ks_max is None or ks_max > 0, lambda: f"ks_max must be above 0, got {ks_max}")
    rules.one_of("post_sample", post_sample, (None, *POST_SAMPLE_MODES))
    if q is not None:
        # The kernel refuses it beside the first; for the second torch_npu passes it on, where the document drops it.
        rules.require(
            post_sample not in (MULTINOMIAL, "None"),
            lambda: f"q must be None with post_sample {post_sample}, got a tensor",
        )
        rules.dtype("q", q, (torch.float32,))
        rules.same_shape("q", q, "logits", logits)
    return Plan((Result((logits.size(0),), torch.int64), Result(tuple(logits.shape), torch.float32)))
