"""Layouts of operands, and conversion to and from the one form that all computation here uses.

That form is (batch, head, token, channel), BNSD. Layouts with T pack the tokens of all sequences: their batch is one,
and the bounds of the sequences are passed separately.
"""

from __future__ import annotations

import torch
from torch import Tensor

# The layout of query, key and value, and that of the result.
LAYOUTS = {
    "BSH": ("BSH", "BSH"),
    "BSND": ("BSND", "BSND"),
    "BNSD": ("BNSD", "BNSD"),
    "TND": ("TND", "TND"),
    "NTD": ("NTD", "NTD"),
    "NSD": ("NSD", "NSD"),
    "BNSD_BSND": ("BNSD", "BSND"),
    "BSH_BNSD": ("BSH", "BNSD"),
    "BSND_BNSD": ("BSND", "BNSD"),
    "BSH_NBSD": ("BSH", "NBSD"),
    "BSND_NBSD": ("BSND", "NBSD"),
    "BNSD_NBSD": ("BNSD", "NBSD"),
    "TND_NTD": ("TND", "NTD"),
    "NTD_TND": ("NTD", "TND"),
}


def is_packed(layout: str) -> bool:
    """Whether a layout packs sequences along T."""
    return "T" in layout


def to_bnsd(x: Tensor, layout: str, heads: int) -> Tensor:
    """``x`` as (batch, head, token, channel), without a copy."""
    if layout == "BSH":
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "TND":
        return x.transpose(0, 1).unsqueeze(0)
    return x if layout == "BNSD" else x.unsqueeze(0)


def empty_in_layout(layout: str, batch: int, heads: int, tokens: int, channels: int, dtype: torch.dtype) -> Tensor:
    """An empty (batch, head, token, channel) tensor that ``from_bnsd`` need not copy."""
    if layout in ("BSH", "BSND", "TND"):
        return torch.empty(batch, tokens, heads, channels, dtype=dtype).transpose(1, 2)
    if layout == "SBH":
        return torch.empty(tokens, batch, heads, channels, dtype=dtype).permute(1, 2, 0, 3)
    return torch.empty(batch, heads, tokens, channels, dtype=dtype)


def from_bnsd(x: Tensor, layout: str) -> Tensor:
    """``x`` (batch, head, token, channel) in the layout of a result."""
    if layout == "BSH":
        return x.transpose(1, 2).flatten(-2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(-2)
    if layout == "BSND":
        return x.transpose(1, 2).contiguous()
    if layout == "NBSD":
        return x.transpose(0, 1).contiguous()
    if layout == "TND":
        return x.squeeze(0).transpose(0, 1).contiguous()
    return x if layout == "BNSD" else x.squeeze(0)
