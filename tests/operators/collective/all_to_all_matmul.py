"""Wrong calls of npu_all_to_all_matmul and npu_matmul_all_to_all; allowed ones are in test_all_to_all_matmul.py."""

from support.call_table import Call, bad
from support.tensors import bf16, f16, f32

GROUP, X1 = "a group", f16(4, 8)


def _of_both(op: str, depth: int, axes: list[int]) -> list[Call]:
    """Wrong calls of an operator whose x2 is (`depth` * 8, n)."""
    x2 = f16(8 * depth, 4)
    return [
        bad(op, "x1", "x1 float32", f32(4, 8), f32(8 * depth, 4), GROUP, 2),
        bad(op, "x1", "x1 of three dimensions", f16(1, 4, 8), x2, GROUP, 2),
        bad(op, "x1", "x1 a transposed view", f16(8, 4).t(), x2, GROUP, 2),
        bad(op, "x1.size(1)", "no depth", f16(4, 0), x2, GROUP, 2),
        bad(op, "x2", "x2 of another dtype", X1, bf16(8 * depth, 4), GROUP, 2),
        bad(op, "x2", "x2 of one dimension", X1, f16(8), GROUP, 2),
        bad(op, "x2.size(1)", "no column", X1, f16(8 * depth, 0), GROUP, 2),
        bad(op, "x2.size(0)", "another depth", X1, f16(8 * depth + 1, 4), GROUP, 2),
        bad(op, "must be at most 65535", "too deep", f16(2, 65536 // depth), f16(65536, 2), GROUP, 2),
        bad(op, "world_size", "three ranks", X1, x2, GROUP, 3),
        bad(op, "all2all_axes", "the opposite axes", X1, x2, GROUP, 2, all2all_axes=axes),
        bad(op, "comm_mode", "a mode of Ascend 950", X1, x2, GROUP, 2, comm_mode="ccu"),
        bad(op, "bias", "bias float32", X1, x2, GROUP, 2, bias=f32(4)),
        bad(op, "bias", "bias bfloat16", bf16(4, 8), bf16(8 * depth, 4), GROUP, 2, bias=bf16(4)),
        bad(op, "bias.size(0)", "bias short", X1, x2, GROUP, 2, bias=f16(2)),
        bad(op, "only Atlas A3", "another chip", X1, x2, GROUP, 2),
    ]


WRONG = [*_of_both("all_to_all_matmul", 2, [-1, -2]), *_of_both("matmul_all_to_all", 1, [-2, -1])]
