"""npu_scatter_pa_kv_cache_functional becomes ScatterPaKvCache on copies; TorchAir has no mode for None."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.meta.cache.scatter_pa_kv_cache import ScatterPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair.ge._ge_graph import Tensor


@lowers("npu_scatter_pa_kv_cache_functional")
def lower(
    plan: ScatterPlan, key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    copies = ge.TensorMove(key_cache), ge.TensorMove(value_cache)
    unused = None, None, None
    written: tuple[Tensor, Tensor] = ge.ScatterPaKvCache(
        key, copies[0], slot_mapping, value, copies[1], *unused, cache_mode=plan.mode, strides=[1, 1], offsets=[0, 0]
    )
    return written
