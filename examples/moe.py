"""Mixture-of-experts decoders on the NPU's own operators: Mixtral, Qwen3 and, in the manner of DeepSeek-V3, GLM-4.

A gate chooses the experts of each token, the tokens are copied to the rows of their experts, two grouped products with
the gated activation between them are computed on those rows alone, and what the experts made of a token is added up. In
int8 the copy quantises, with a scale for each row, and the products scale back. The third model has experts in groups,
chosen by sigmoids and a bias, and a shared expert beside them.

Where two experts are nearly tied for a token, rounding can make the gate take the other one: logits then differ from
those of the model as it was by more than rounding, in eager mode and in the graph alike.
"""

from decoders import Report, make_model, prove, show  # isort: skip (before torch: it imports graph_quant)

from collections.abc import Callable
from typing import Any

import torch
import torch_npu
from torch import Tensor, nn
from torch.nn import functional
from transformers import Glm4MoeConfig, MixtralConfig, PretrainedConfig, Qwen3MoeConfig

SIZES = {
    "hidden_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
}
CONFIGS: dict[str, PretrainedConfig] = {
    "Mixtral": MixtralConfig(intermediate_size=192, num_local_experts=4, **SIZES),
    "Qwen3": Qwen3MoeConfig(moe_intermediate_size=96, num_experts=8, norm_topk_prob=True, **SIZES),
    "GLM-4, as DeepSeek-V3": Glm4MoeConfig(
        intermediate_size=256,
        moe_intermediate_size=96,
        n_routed_experts=16,
        n_shared_experts=1,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=0,
        norm_topk_prob=True,
        routed_scaling_factor=2.5,
        **SIZES,
    ),
}


class SoftmaxGate(nn.Module):
    """The k best experts, weighed by a softmax over them."""

    def __init__(self, gate: Any) -> None:
        super().__init__()
        self.weight, self.k = gate.weight, gate.top_k

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = functional.linear(x.reshape(-1, x.size(-1)), self.weight)
        weights, experts, _ = torch_npu.npu_moe_gating_top_k_softmax_v2(logits.float(), k=self.k, renorm=1)
        return logits, weights, experts


class GroupedSigmoidGate(nn.Module):
    """The k best experts of the best groups by sigmoid and bias, weighed by their sigmoids."""

    def __init__(self, gate: Any) -> None:
        super().__init__()
        self.weight, self.bias = gate.weight, gate.e_score_correction_bias
        self.k, self.groups, self.chosen_groups = gate.top_k, gate.num_group, gate.topk_group
        self.factor = gate.routed_scaling_factor

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        logits = functional.linear(x.reshape(-1, x.size(-1)).float(), self.weight.float())
        weights, experts, _ = torch_npu.npu_moe_gating_top_k(
            logits,
            self.k,
            bias=self.bias,
            k_group=self.chosen_groups,
            group_count=self.groups,
            group_select_mode=1,
            norm_type=1,
            routed_scaling_factor=self.factor,
        )
        return logits, weights, experts


class Experts(nn.Module):
    """Experts on grouped products, work proportional to the rows."""

    def __init__(self, experts: Any) -> None:
        super().__init__()
        # Of the gate's and the up-projection's columns, (experts, in, 2 * width), then of the way back.
        self.up, self.down = (weight.data.mT.contiguous() for weight in (experts.gate_up_proj, experts.down_proj))

    def forward(self, x: Tensor, experts: Tensor, weights: Tensor) -> Tensor:
        rows, row_idx, tokens, scales = self.route(x, experts)
        y = self.compute(rows, scales, tokens)
        return torch_npu.npu_moe_finalize_routing(  # type: ignore[no-any-return]
            y, None, None, None, weights.to(y.dtype), row_idx, None, drop_pad_mode=2
        )

    def route(self, x: Tensor, experts: Tensor, quant_mode: int = -1) -> tuple[Tensor, ...]:
        """The rows of all experts, one after another, and how many each has."""
        results: tuple[Tensor, ...] = torch_npu.npu_moe_init_routing_v2(
            x,
            experts,
            expert_num=self.up.size(0),
            expert_tokens_num_type=1,
            expert_tokens_num_flag=True,
            quant_mode=quant_mode,
        )
        return results

    def compute(self, rows: Tensor, _scales: Tensor, tokens: Tensor) -> Tensor:
        hidden = gated(product(rows, self.up, tokens))
        return product(hidden, self.down, tokens)


class Int8Experts(Experts):
    """The same with int8 weights, a scale for each column, and int8 rows, a scale for each."""

    def __init__(self, experts: Any) -> None:
        super().__init__(experts)
        self.up, self.up_scale = int8(self.up)
        self.down, self.down_scale = int8(self.down)

    def route(self, x: Tensor, experts: Tensor, quant_mode: int = 1) -> tuple[Tensor, ...]:
        return super().route(x, experts, quant_mode)

    def compute(self, rows: Tensor, scales: Tensor, tokens: Tensor) -> Tensor:
        hidden = gated(product(rows, self.up, tokens, scale=[self.up_scale], per_token_scale=[scales]))
        rows, scales = torch_npu.npu_dynamic_quant(hidden)
        return product(rows, self.down, tokens, scale=[self.down_scale], per_token_scale=[scales])


def product(rows: Tensor, weight: Tensor, tokens: Tensor, **scales: list[Tensor]) -> Tensor:
    """Each expert's rows times its matrix."""
    options = {"output_dtype": torch.bfloat16} if scales else {}
    (result,) = torch_npu.npu_grouped_matmul(
        [rows], [weight], **scales, group_list=tokens, split_item=3, group_type=0, group_list_type=1, **options
    )
    return result  # type: ignore[no-any-return]


def gated(hidden: Tensor) -> Tensor:
    gate, up = hidden.chunk(2, -1)
    return functional.silu(gate) * up


def int8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """``weight`` (experts, in, out) in int8, and the scale of each column, in bfloat16 as the product takes it."""
    scale = (weight.float().abs().amax(1) / 127).to(torch.bfloat16)
    whole = (weight.float() / scale.float().unsqueeze(1)).round().clamp(-128, 127)
    return whole.to(torch.int8), scale


def replace_experts(kind: type[Experts]) -> Callable[[nn.Module], list[str]]:
    """Puts gates and experts on the NPU's operators; says which modules were replaced."""

    def replace(model: nn.Module) -> list[str]:
        replaced = []
        for name, block in model.named_modules():
            if hasattr(block, "experts") and hasattr(block, "gate"):
                in_groups = hasattr(block.gate, "e_score_correction_bias")
                block.gate = (GroupedSigmoidGate if in_groups else SoftmaxGate)(block.gate)
                block.experts = kind(block.experts)
                replaced.append(name)
        return replaced

    return replace


KINDS = {"bfloat16": Experts, "int8 experts": Int8Experts}


def main(name: str, kind: str) -> Report:
    """Replaces gates and experts, compiles, compares and prints."""
    report = prove(f"{name}, {kind}", make_model(CONFIGS[name], torch.bfloat16), replace_experts(KINDS[kind]))
    show(report)
    return report


if __name__ == "__main__":
    raise SystemExit(not all([main(name, kind).bit_equal for name in CONFIGS for kind in KINDS]))
