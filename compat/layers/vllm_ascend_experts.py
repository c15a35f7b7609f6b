"""vllm-ascend's methods for experts, with its own routing and combining."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from enum import Enum
from types import SimpleNamespace
from typing import Any

import torch
import torch_npu
from torch import Tensor, nn

from .experts import EXPERTS, INNER, OUTER, Experts, compare_experts
from .layer import Layer, module, pack_eight_int4

_METHODS = "vllm_ascend.quantization.methods"
_OWN = "_C_ascend"  # operators of vllm-ascend's own extension
GROUP = 32


class Device(Enum):
    """vllm-ascend's device types."""

    A2, A3, A5, _310P = range(4)


class Communication(Enum):
    """vllm-ascend's communication types."""

    ALLGATHER, MC2, ALLTOALL, FUSED_MC2 = range(4)


CONTEXT = SimpleNamespace(
    moe_comm_method=None, moe_comm_type=Communication.ALLGATHER, capturing=False, is_draft_model=False
)
CONFIG = SimpleNamespace(
    compilation_config=SimpleNamespace(mode=None),
    model_config=SimpleNamespace(enforce_eager=True, dtype=torch.bfloat16),
    use_v2_model_runner=False,
    parallel_config=SimpleNamespace(enable_eplb=False, enable_expert_parallel=True),
    quant_config=SimpleNamespace(quant_description={}),
    kv_transfer_config=None,
    cache_config=SimpleNamespace(block_size=128),
)
FUSION = SimpleNamespace(is_on=False)
CHIP = SimpleNamespace(kind=Device.A3)
_ASCEND = SimpleNamespace(enable_fused_mc2=0, eplb_config=SimpleNamespace(dynamic_eplb=False), vllm_config=CONFIG)
REAL = (
    *(f"{_METHODS}.{name}" for name in ("w4a8", "w4a16")),
    *(f"vllm_ascend.ops.fused_moe.{name}" for name in ("moe_comm_method", "moe_mlp", "token_dispatcher")),
    *(
        f"vllm_ascend.ops.fused_moe.dataclass.{name}"
        for name in ("fused_experts", "moe_mlp", "moe_quant", "prepare_finalize", "router_input", "token_dispatcher")
    ),
    "vllm_ascend.device.device_op",
)
ANSWERS = {
    "vllm.config.get_current_vllm_config": lambda: CONFIG,
    "vllm.triton_utils.HAS_TRITON": False,
    "vllm_ascend.ascend_config._MEGA_MOE_SUPPORTED": False,
    "vllm_ascend.ascend_config.get_ascend_config": lambda: _ASCEND,
    "vllm_ascend.ascend_forward_context._EXTRA_CTX": CONTEXT,
    "vllm_ascend.ascend_forward_context.MoECommType": Communication,
    "vllm_ascend.distributed.parallel_state.get_mc2_group": lambda: None,
    "vllm_ascend.lora.fused_moe.has_lora": lambda _: False,
    "vllm_ascend.ops.fused_moe.moe_utils.enable_fusion_gmmswigluquant": lambda: FUSION.is_on,
    "vllm_ascend.utils.AscendDeviceType": Device,
    "vllm_ascend.utils.get_ascend_device_type": lambda: CHIP.kind,
    "vllm_ascend.utils.enable_custom_op": lambda: FUSION.is_on,
    "vllm_ascend.utils.dispose_tensor": lambda _: None,
    "vllm_ascend.utils.ASCEND_QUANTIZATION_METHOD": "ascend",
    "vllm_ascend.utils.ACL_FORMAT_FRACTAL_NZ": 29,
}


def _run(
    file: str, name: str, layer: nn.Module, experts: Experts, bits: int | None, *, by: Communication, fused: bool
) -> Layer:
    CONTEXT.moe_comm_type, FUSION.is_on = by, fused
    method = getattr(importlib.import_module(f"{_METHODS}.{file}"), name)()
    return compare_experts(apply_method(method, layer, experts), experts, bits)


def apply_method(method: Any, layer: nn.Module, experts: Experts) -> Tensor:
    """Return the result of ``method`` with ``layer``, with vllm-ascend's own routing and combining."""
    communication = importlib.import_module("vllm_ascend.ops.fused_moe.moe_comm_method")
    config = SimpleNamespace(
        experts_per_token=experts.chosen.size(1), num_experts=EXPERTS, num_local_experts=EXPERTS, activation="silu"
    )
    CONTEXT.moe_comm_method = communication.AllGatherCommImpl(config)
    _define_extension_operators()
    method.process_weights_after_loading(layer)
    of_layer = {"ascend_expert_map": None, "global_redundant_expert_num": 0, "ascend_mc2_mask": None}
    of_layer |= {"apply_router_weight_on_input": False, "ascend_pertoken_scale": None, "activation": "silu"}
    for key, value in of_layer.items():
        setattr(layer, key, value)
    inputs = (experts.tokens.npu(), experts.shares.npu(), experts.chosen.npu())
    done: Tensor = method.apply(layer, *inputs, None, None).routed_out
    return done


def _w8a8(by: Communication = Communication.ALLGATHER, *, fused: bool = False) -> Layer:
    experts = Experts.random(8)
    parameters: dict[str, Tensor] = {}
    for name, weights in (("w13", experts.up), ("w2", experts.down)):
        parameters |= {f"{name}_{key}": value for key, value in weights.parameters().items()}
    return _run("w8a8_dynamic", "AscendW8A8DynamicFusedMoEMethod", module(**parameters), experts, 8, by=by, fused=fused)


def _w4a8(form: str) -> Layer:
    """Run a checkpoint of msModelSlim, which packs two outputs, or llm-compressor, which does not.

    The first scales [E, N] are for an operator of vllm-ascend's extension; npu_grouped_matmul does not take them.
    """
    experts = Experts.random(4)
    parameters: dict[str, Tensor] = {}
    for name, weights in (("w13", experts.up), ("w2", experts.down)):
        if form == "compressed-tensors":
            parameters |= {f"{name}_weight": weights.integers, f"{name}_weight_scale": weights.scale}
            continue
        bias = (8 * weights.dequantised.sum(-1, keepdim=True)).float()
        parameters |= {
            f"{name}_weight": weights.packed(),
            f"{name}_weight_scale": weights.scale.float(),
            f"{name}_weight_offset": torch.zeros_like(weights.scale, dtype=torch.float32),
            # For a down projection it is split over 16 ranks.
            f"{name}_scale_bias": bias if name == "w13" else (bias / 16).expand(-1, -1, 16).contiguous(),
        }
    CONFIG.quant_config.quant_description = {"ascend_quant_method": form}
    layer = module(**parameters)
    return _run("w4a8", "AscendW4A8DynamicFusedMoEMethod", layer, experts, 8, by=Communication.ALLGATHER, fused=True)


def _w4a16() -> Layer:
    experts = Experts.random(4)
    parameters: dict[str, Tensor] = {}
    for name, weights in (("w13", experts.up), ("w2", experts.down)):
        scale = weights.scale.expand(-1, -1, weights.integers.size(-1) // GROUP).contiguous()
        parameters |= {
            f"{name}_weight_packed": pack_eight_int4(weights.integers),
            f"{name}_weight_scale": scale,
            f"{name}_weight_offset": torch.zeros_like(scale),
        }
    CONFIG.quant_config.quant_description = {"group_size": GROUP}
    layer = module(**parameters)
    return _run("w4a16", "AscendW4A16FusedMoEMethod", layer, experts, None, by=Communication.ALLGATHER, fused=False)


def _define_extension_operators() -> None:
    """Define operators of vllm-ascend's extension by torch_npu's equivalents; a swiglu_limit must be 0."""
    library = torch.library.Library(_OWN, "DEF")
    library.define(
        "grouped_matmul_swiglu_quant_weight_nz(Tensor x, Tensor weight, Tensor weight_scale, Tensor x_scale, "
        "Tensor group_list, Tensor? bias=None, float swiglu_limit=0.0) -> (Tensor, Tensor, Tensor)"
    )
    library.define(
        "grouped_matmul_swiglu_quant_v2(Tensor x, Tensor[] weight, Tensor[] weight_scale, Tensor x_scale, "
        "Tensor group_list, Tensor[]? weight_assist_matrix=None, int dequant_mode=0, int group_list_type=0, "
        "float swiglu_limit=0.0) -> (Tensor, Tensor)"
    )
    library.define(
        "npu_dequant_swiglu_quant(Tensor x, *, Tensor? weight_scale=None, Tensor? activation_scale=None, "
        "Tensor? bias=None, Tensor? quant_scale=None, Tensor? quant_offset=None, Tensor? group_index=None, "
        "bool activate_left=False, int quant_mode=0) -> (Tensor, Tensor)"
    )
    library.impl("grouped_matmul_swiglu_quant_weight_nz", _swiglu_quant, "PrivateUse1")
    library.impl("grouped_matmul_swiglu_quant_v2", _swiglu_quant_v2, "PrivateUse1")
    library.impl("npu_dequant_swiglu_quant", _dequant_swiglu_quant, "PrivateUse1")
    _KEPT.append(library)


_KEPT: list[torch.library.Library] = []


def _swiglu_quant(
    x: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    x_scale: Tensor,
    group_list: Tensor,
    bias: Tensor | None = None,
    swiglu_limit: float = 0.0,
) -> Any:
    assert bias is None
    assert swiglu_limit == 0.0
    return torch_npu.npu_grouped_matmul_swiglu_quant(x, weight, group_list, weight_scale, x_scale)


def _swiglu_quant_v2(
    x: Tensor,
    weight: list[Tensor],
    weight_scale: list[Tensor],
    x_scale: Tensor,
    group_list: Tensor,
    weight_assist_matrix: list[Tensor] | None = None,
    dequant_mode: int = 0,
    group_list_type: int = 0,
    swiglu_limit: float = 0.0,
) -> Any:
    assert swiglu_limit == 0.0
    return torch_npu.npu_grouped_matmul_swiglu_quant_v2(
        x,
        weight,
        weight_scale,
        x_scale,
        group_list,
        weight_assist_matrix=weight_assist_matrix,
        dequant_mode=dequant_mode,
        group_list_type=group_list_type,
    )


def _dequant_swiglu_quant(x: Tensor, **arguments: Any) -> Any:
    return torch_npu.npu_dequant_swiglu_quant(x, **arguments)


assert INNER % GROUP == OUTER % GROUP == 0
CASES: dict[str, Callable[[], Layer]] = {
    "W8A8_DYNAMIC experts": _w8a8,
    "W8A8_DYNAMIC experts, product and activation in one": lambda: _w8a8(fused=True),
    "W8A8_DYNAMIC experts, dequantised with the activation": lambda: _w8a8(Communication.MC2),
    "W8A8_DYNAMIC experts, product and activation in one, by MC2": lambda: _w8a8(Communication.MC2, fused=True),
    "W4A8_DYNAMIC experts of msModelSlim": lambda: _w4a8("ascend"),
    "W4A8_DYNAMIC experts of llm-compressor": lambda: _w4a8("compressed-tensors"),
    "W4A16 experts": _w4a16,
}
