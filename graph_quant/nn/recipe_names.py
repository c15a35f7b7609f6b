"""The names of the recipes that need no other recipe."""

from __future__ import annotations

from graph_quant.nn.recipes import (
    MXFP4,
    MXFP8,
    W4A4,
    W4A8,
    W4A16,
    W8A16,
    BlockFP8,
    DynamicW8A8,
    HiF8,
    Recipe,
    StaticW8A8,
)

# W8A8 without calibration is the dynamic scheme, as in msModelSlim's W8A8_DYNAMIC.
RECIPES: dict[str, type[Recipe]] = {
    "W8A8": DynamicW8A8,
    "W8A8_DYNAMIC": DynamicW8A8,
    "DYNAMICW8A8": DynamicW8A8,
    "W8A8_STATIC": StaticW8A8,
    "STATICW8A8": StaticW8A8,
    "W8A16": W8A16,
    "W4A16": W4A16,
    "W4A8": W4A8,
    "W4A8_DYNAMIC": W4A8,
    "W4A4": W4A4,
    "W4A4_DYNAMIC": W4A4,
    "MXFP8": MXFP8,
    "MXFP4": MXFP4,
    "FP8_BLOCK": BlockFP8,
    "HIF8": HiF8,
}
