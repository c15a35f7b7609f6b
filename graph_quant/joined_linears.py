"""Linears that engines join to one, whose parts must have one scheme."""

from __future__ import annotations

JOINED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "in_proj_qkvz": ("in_proj_qkv", "in_proj_z"),
    "in_proj_ba": ("in_proj_b", "in_proj_a"),
}
_TARGETS = {part: target for target, parts in JOINED.items() for part in parts}


def joined_name(module: str) -> str:
    """The name of the linear that an engine joins this one into; its own name if none."""
    parent, _, own = module.rpartition(".")
    target = _TARGETS.get(own)
    return module if target is None else f"{parent}.{target}" if parent else target
