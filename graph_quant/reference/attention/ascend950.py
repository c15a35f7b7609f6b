"""What of attention is described for Ascend 950: half precision, without shifts, paddings, prefixes and quantisation.

Its kernel computes what that of A2 and A3 does: scores, weights and their sum are float32, weights are rounded half to
even for the product with value, and the sum divides at the end. What it writes for a query that sees no key is not
described.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from graph_quant.chip import ASCEND_950
from graph_quant.refusals import Refusal
from torch import Tensor

from .inference_call import Attributes, Operands

_DESCRIBED = ("query", "key", "value", "atten_mask", "block_table", "query_rope", "key_rope", "learnable_sink")
_HALVES = (torch.float16, torch.bfloat16)
_MASK_MODES, _MODES, _LATENT_MODES = (0, 1), (0, 1, 2, 3, 4), (0, 3, 4)
_LATENT = 512
NOT_DESCRIBED = f"not described for {ASCEND_950.name} yet"


def find_undescribed(operands: Operands, attrs: Attributes) -> str | None:
    """Return why a call is not described, or None."""
    for field in fields(Operands):
        if field.name not in _DESCRIBED and getattr(operands, field.name) is not None:
            return f"{attrs.name(field.name)} must be None, others are {NOT_DESCRIBED}, got a tensor"
    dtypes = {"query": operands.query.dtype, "key": operands.key.dtype, "value": operands.value.dtype}
    for name, dtype in dtypes.items():
        if dtype not in _HALVES or dtype != operands.query.dtype:
            return f"{name} must be torch.float16 or torch.bfloat16, as query, others are {NOT_DESCRIBED}, got {dtype}"
    is_latent = operands.query_rope is not None and operands.query.size(-1) == _LATENT
    modes = _LATENT_MODES if is_latent else _MODES
    if attrs.sparse_mode not in modes:
        return f"sparse_mode must be one of {modes}, others are {NOT_DESCRIBED}, got {attrs.sparse_mode}"
    mask = operands.atten_mask
    if mask is not None and attrs.sparse_mode in _MASK_MODES and mask.dim() == 2:
        return f"atten_mask must have 3 or 4 dimensions in sparse_mode 0 and 1, others are {NOT_DESCRIBED}, got 2"
    sink = operands.learnable_sink
    if sink is not None and sink.dtype != operands.query.dtype:
        return f"learnable_sink must have the dtype of query on {ASCEND_950.name}, got {sink.dtype}"
    precise = (0,) if sink is not None else (0, 1)
    if attrs.inner_precise not in precise:
        return f"inner_precise must be one of {precise}, others are {NOT_DESCRIBED}, got {attrs.inner_precise}"
    return None


def find_undescribed_in_training(arguments: Mapping[str, Any]) -> str | None:
    """Return why a call for training is not described, or None."""
    for name in ("pse", "sink", "prefix", "dropout_mask", "query_rope", "key_rope"):
        if arguments.get(name) is not None:
            return f"{name} must be None, others are {NOT_DESCRIBED}, got {type(arguments[name]).__name__}"
    if arguments["query"].dtype not in _HALVES:
        return (
            f"query must be torch.float16 or torch.bfloat16, others are {NOT_DESCRIBED}, got {arguments['query'].dtype}"
        )
    for name, allowed in (("keep_prob", (1.0,)), ("sparse_mode", _MODES), ("inner_precise", (0,))):
        if arguments[name] not in allowed:
            return f"{name} must be one of {allowed}, others are {NOT_DESCRIBED}, got {arguments[name]}"
    return None


def check_rows(op: str, hidden: Tensor | None, keys: int, sequence: int) -> None:
    """Refuse a sequence in which a query sees no key."""
    if keys == 0 or (hidden is not None and bool(hidden.all(-1).any())):
        raise Refusal(
            f"{op}: every query must see a key, others are {NOT_DESCRIBED}, got one of sequence {sequence} without"
        )
