"""npu_gather_pa_kv_cache_functional becomes GatherPaKvCache on copies, for which TorchAir has no converter."""

from __future__ import annotations

from graph_quant.converters.lowering import lowers
from graph_quant.meta.cache.gather_pa_kv_cache import GatherPlan
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.compat_ir import ge_op
from torchair.ge import attr
from torchair.ge._ge_graph import Tensor


@lowers("npu_gather_pa_kv_cache_functional")
def lower(
    plan: GatherPlan,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    seq_lens: Tensor,
    key: Tensor,
    value: Tensor,
    seq_offset: Tensor | None,
    is_seq_lens_cumsum: bool,
) -> tuple[Tensor, Tensor]:
    """The GE nodes of one call."""
    keys, values = ge_op(
        op_type="GatherPaKvCache",
        inputs={
            "key_cache": key_cache,
            "value_cache": value_cache,
            "block_tables": block_tables,
            "seq_lens": seq_lens,
            "key": ge.TensorMove(key),
            "value": ge.TensorMove(value),
            "seq_offset": seq_offset,
        },
        outputs=["key", "value"],
        attrs={"cache_mode": attr.Str(plan.mode), "is_seq_lens_cumsum": attr.Bool(is_seq_lens_cumsum)},
    )
    return keys, values
