"""npu_scatter_pa_kv_cache and its functional form: writes keys and values to their slots of paged caches.

Of several tokens with the same slot, a device keeps any one; here that is the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from graph_quant.chip import A2_A3_950
from graph_quant.ge import kernel
from graph_quant.reference.cache.paged_cache import NORM, write_tokens
from torch import Tensor

OP = "npu_scatter_pa_kv_cache"


def scatter_pa_kv_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, mode: str
) -> tuple[()]:
    """Writes into both caches."""
    write_tokens(OP, "slot_mapping", key_cache, key, slot_mapping, mode)
    write_tokens(OP, "slot_mapping", value_cache, value, slot_mapping, mode)
    return ()


def scatter_pa_kv_cache_functional(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor, mode: str
) -> tuple[Tensor, Tensor]:
    """Copies of both caches with keys and values written."""
    caches = key_cache.clone(), value_cache.clone()
    scatter_pa_kv_cache(key, value, *caches, slot_mapping, mode)
    return caches


@kernel("ScatterPaKvCache", flops=0, may_alias=True, chips=A2_A3_950)
def scatter_pa_kv_cache_node(
    key: Tensor,
    key_cache: Tensor,
    slot_mapping: Tensor,
    value: Tensor,
    value_cache: Tensor,
    compress_lens: Tensor | None = None,
    compress_seq_offset: Tensor | None = None,
    seq_lens: Tensor | None = None,
    *,
    cache_mode: str = NORM,
    scatter_mode: str = "None",
    strides: Sequence[int] = (1, 1),  # noqa: ARG001 (only for scatter_mode Nct, as offsets)
    offsets: Sequence[int] = (0, 0),  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    if scatter_mode != "None" or any(tensor is not None for tensor in (compress_lens, compress_seq_offset, seq_lens)):
        raise NotImplementedError(f"ScatterPaKvCache: scatter_mode {scatter_mode!r} has no host kernel, only 'None'")
    scatter_pa_kv_cache(key, value, key_cache, value_cache, slot_mapping, cache_mode)
    return key_cache, value_cache
