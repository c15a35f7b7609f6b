"""What devices write when a call breaks a rule of a record: the argument, the rule and the fix."""

from __future__ import annotations

import re
from typing import NamedTuple


class DeviceMessage(NamedTuple):
    """A text of aclnn or a tiling, and the rule of a record that it stands for."""

    pattern: re.Pattern[str]
    operator: str
    argument: str
    rule: str
    fix: str


def _message(pattern: str, operator: str, argument: str, rule: str, fix: str) -> DeviceMessage:
    return DeviceMessage(re.compile(pattern, re.IGNORECASE | re.DOTALL), operator, argument, rule, fix)


_TO_ND = "npu_format_cast(weight, 2) converts it to ND"
MESSAGES = (
    _message(
        r"int4.{0,80}FRACTAL_NZ.{0,60}antiquantGroupSize should be",
        "npu_weight_quant_batchmatmul",
        "antiquant_group_size",
        "int4 weights in FRACTAL_NZ have groups of 64 or 128",
        f"quantise in groups of 64 or 128, or {_TO_ND}",
    ),
    _message(
        r"int4.{0,80}FRACTAL_NZ.{0,80}(k should be an integer multiple|n should be an integer multiple)",
        "npu_weight_quant_batchmatmul",
        "weight",
        "with groups, k is a multiple of the group size and n of 64 for int4 weights in FRACTAL_NZ",
        f"pad the weight, or {_TO_ND}",
    ),
    _message(
        r"int4.{0,80}FRACTAL_NZ.{0,80}weight should be transposed",
        "npu_weight_quant_batchmatmul",
        "weight",
        "without groups, int4 weights in FRACTAL_NZ are a transposed view",
        f"pass weight.transpose(-1, -2) of a cast (n, k) weight, or {_TO_ND}",
    ),
    _message(
        r"Not supported mat2 n = 1 or k = 1 when format is FRACTAL_NZ",
        "aten.mm",
        "mat2",
        "a matrix in FRACTAL_NZ has more than one row and column",
        f"do not cast such a weight: {_TO_ND}",
    ),
    _message(
        r"weight.{0,40}FRACTAL_NZ.{0,80}should be divisible",
        "npu_grouped_matmul",
        "weight",
        "weights in FRACTAL_NZ have whole blocks: k of 16, n of 16 (half precision), 32 (int8) or 64 (int4)",
        f"pad the weights, or {_TO_ND}",
    ),
    _message(
        r"A8W8, the format of \[?weight\]? is not supported|storage ?shape dim num must be 5 when",
        "npu_grouped_matmul_swiglu_quant",
        "weight",
        "weight must be in FRACTAL_NZ",
        "npu_format_cast(weight, 29) converts it",
    ),
    _message(
        r"BNSD layout and +B \* N is large",
        "npu_rotary_mul",
        "input",
        "in layout BNSD, batch * heads is at most 8 * positions, and narrow rows fill blocks of 32 bytes",
        "transpose to (batch, positions, heads, width), or rotate with elementwise operators",
    ),
    _message(
        r"D of value must be .{0,30}64, 128.{0,20} when learnable sink",
        "npu_fused_infer_attention_score_v2",
        "value",
        "value has at most 128 channels a head with learnable_sink",
        "pad query and key only, or leave out the sink",
    ),
    _message(
        r"stream resources? (are|is) insufficient|insufficient_stream_resources|alloc sq cq fail",
        "torch.npu.graph",
        "captured graphs",
        "live captured graphs hold at most about 1,984 streams of a device",
        "capture fewer sizes or pieces; `graph-quant plan --capture-sizes N` counts them",
    ),
    _message(
        r"operation not permitted when stream is capturing",
        "torch.npu.graph",
        "the captured function",
        "nothing that waits for the device may be called while a stream captures",
        "move item(), synchronize(), copies to the CPU and allocations by data before the capture",
    ),
    _message(
        r"k,n shouldn't be larger than",
        "npu_weight_quant_batchmatmul",
        "weight",
        "k and n are at most 65535",
        "split the product along n",
    ),
    _message(
        r"head_dim shape is too large|D axis of input x can not be greater than",
        "npu_rotary_mul",
        "input",
        "input.size(-1) is at most 896",
        "rotate with elementwise operators",
    ),
)
