"""npu_mrope: rules and results.

query and key are (tokens, heads * head_size), cos_sin_cache (length, rotated width), all of one float dtype; both
widths are multiples of 32, of 16 for float32, and the rotated one is no larger. positions are int32 or int64: (tokens,)
without mrope_section, or with zeros in it; else a row for each section, and the sections fill half the rotated width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from graph_quant.meta.operator import Plan, Result, operator
from graph_quant.meta.rules import FLOATS, Rules, Size
from graph_quant.reference.rope.mrope import mrope as reference
from graph_quant.reference.rope.rotation import MODES
from torch import Tensor

SECTIONS = ([11, 11, 10], [16, 24, 24], [24, 20, 20], [8, 12, 12], [16, 16, 16, 16])
CACHE_MODES = ("default", "interleave")


@dataclass(frozen=True)
class MropePlan(Plan):
    """``sections`` is empty where positions are one row; ``is_interleaved`` as cache_mode says."""

    sections: tuple[int, ...]
    is_interleaved: bool


@operator("npu_mrope", reference=reference)
def mrope(
    rules: Rules,
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    mrope_section: Sequence[int] | None,
    rotary_mode: str | None,
    cache_mode: str | None,
) -> MropePlan:
    """Checks a call against the documented rules, and returns its plan."""
    rules.one_of("rotary_mode", rotary_mode, (None, *MODES))
    # In torch_npu's words, which its own tests look for.
    rules.require(
        cache_mode in (None, *CACHE_MODES),
        lambda: f"cache_mode only support {' or '.join(CACHE_MODES)}, or None, got {cache_mode}",
    )
    rules.dtype("query", query, FLOATS)
    multiple = 16 if query.dtype == torch.float32 else 32
    rules.at_least("head_size", head_size, 1)
    _check_multiple(rules, "head_size", head_size, multiple, f" for {query.dtype}")
    for name, rows in (("query", query), ("key", key)):
        rules.dtype(name, rows, (query.dtype,), ", the dtype of query")
        rules.rank(name, rows, 2)
        _check_multiple(rules, f"{name}.size(1)", rows.size(1), head_size, ", as head_size is")
    rules.equal("key.size(0)", key.size(0), "query.size(0)", query.size(0))
    rules.dtype("cos_sin_cache", cos_sin_cache, (query.dtype,), ", the dtype of query")
    rules.rank("cos_sin_cache", cos_sin_cache, 2)
    width = cos_sin_cache.size(1)
    _check_multiple(rules, "cos_sin_cache.size(1)", width, multiple, f" for {query.dtype}")
    rules.require(
        width <= head_size, lambda: f"cos_sin_cache.size(1) must not exceed head_size, {head_size}, got {width}"
    )
    sections = _sections(rules, mrope_section, width, positions)
    rules.equal("positions.size(-1)", positions.size(-1), "query.size(0)", query.size(0))
    is_interleaved = bool(sections) and cache_mode == CACHE_MODES[1]
    rules.require(
        not is_interleaved or len(sections) == 3,
        lambda: f"cache_mode must be 'default' beside four sections, got {cache_mode!r}",
    )
    results = tuple(Result(tuple(tensor.shape), tensor.dtype) for tensor in (query, key))
    return MropePlan(results, sections, is_interleaved)


def _check_multiple(rules: Rules, name: str, size: Size, of: int, why: str) -> None:
    rules.require(size % of == 0, lambda: f"{name} must be a multiple of {of}{why}, got {size}")


def _sections(rules: Rules, sections: Sequence[int] | None, width: Size, positions: Tensor) -> tuple[int, ...]:
    rules.dtype("positions", positions, (torch.int32, torch.int64))
    if sections is None or list(sections) == [0, 0, 0]:
        rules.rank("positions", positions, 1, why=" without mrope_section")
        return ()
    rules.one_of("mrope_section", list(sections), ([0, 0, 0], *SECTIONS))
    rules.require(
        sum(sections) * 2 == width,
        lambda: f"mrope_section must add up to half of cos_sin_cache.size(1), {width}, got {list(sections)}",
    )
    rules.rank("positions", positions, 2, why=" with mrope_section")
    rules.equal("positions.size(0)", positions.size(0), "the sections", len(sections))
    return tuple(sections)
