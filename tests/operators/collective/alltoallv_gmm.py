"""Wrong calls of npu_alltoallv_gmm and npu_gmm_alltoallv; allowed ones are in test_all_to_all_matmul.py."""

from typing import Any

import torch

from support.call_table import Call, bad
from support.tensors import bf16, f16, f32, i32

GROUP, COUNTS = "a group", [1024] * 8
X, WEIGHT = torch.zeros(8192, 1024, dtype=torch.float16), f16(1, 1024, 4)  # 2 MB for each of eight ranks
SHARED_X, SHARED = f16(1024, 4), f16(4, 2)


def _of_both(op: str) -> list[Call]:
    def wrong(
        argument: str,
        label: str,
        x: torch.Tensor = X,
        weight: torch.Tensor = WEIGHT,
        ranks: int = 8,
        sends: list[int] = COUNTS,
        receives: list[int] = COUNTS,
        **options: Any,
    ) -> Call:
        return bad(op, argument, label, x, weight, GROUP, ranks, sends, receives, **options)

    def shared(argument: str, label: str, **options: Any) -> Call:
        return wrong(argument, label, **{"mm_x": SHARED_X, "mm_weight": SHARED, **options})

    return [
        wrong("gmm_x", "gmm_x float32", f32(8, 4), f32(1, 4, 4)),
        wrong("gmm_x", "gmm_x of one dimension", f16(8)),
        wrong("gmm_x.size(0)", "no rows", f16(0, 4), f16(1, 4, 4)),
        wrong("gmm_x.size(1)", "too deep", f16(1, 65536), f16(1, 65536, 1)),
        wrong("gmm_weight", "gmm_weight of another dtype", f16(8, 4), bf16(1, 4, 4)),
        wrong("gmm_weight", "gmm_weight of two dimensions", f16(8, 4), f16(4, 4)),
        wrong("gmm_weight.size(1)", "another depth", f16(8, 4), f16(1, 8, 4)),
        wrong("gmm_weight.size(2)", "another depth, transposed", f16(8, 4), f16(1, 4, 8), trans_gmm_weight=True),
        wrong("gmm_weight.size(2)", "no column", f16(8, 4), f16(1, 4, 0)),
        wrong("gmm_weight.size(0)", "33 experts", f16(8, 4), f16(33, 4, 4)),
        wrong("gmm_weight.size(0)", "three experts on each of 128 ranks", f16(8, 4), f16(3, 4, 4), 128),
        wrong("ep_world_size", "two ranks", f16(8, 4), f16(1, 4, 4), 2),
        wrong("the length of send_counts", "a rank too few", sends=COUNTS[:7]),
        wrong("the length of recv_counts", "a rank too few", receives=COUNTS[:7]),
        wrong("send_counts", "fewer than none", sends=[-1, *COUNTS[1:]]),
        wrong("send_counts", "a row short of 2 MB", sends=[1023, 1025, *COUNTS[2:]]),
        wrong("recv_counts", "a row short of 2 MB", receives=[1023, 1025, *COUNTS[2:]]),
        wrong("gmm_x.size(0)", "a row more than counted", sends=[1025, *COUNTS[1:]]),
        wrong("send_counts_tensor", "counts as a tensor", send_counts_tensor=i32(8)),
        wrong("recv_counts_tensor", "counts as a tensor", recv_counts_tensor=i32(8)),
        wrong("comm_mode", "a mode of Ascend 950", comm_mode="ccu"),
        wrong("mm_x", "without a weight", mm_x=SHARED_X),
        wrong("mm_weight", "without rows", mm_weight=SHARED),
        wrong("trans_mm_weight", "nothing transposed", trans_mm_weight=True),
        shared("mm_x", "mm_x of another dtype", mm_x=bf16(1024, 4)),
        shared("mm_x", "mm_x of three dimensions", mm_x=f16(1, 1024, 4)),
        shared("mm_weight", "mm_weight of another dtype", mm_weight=bf16(4, 2)),
        shared("mm_weight", "mm_weight of three dimensions", mm_weight=f16(1, 4, 2)),
        shared("mm_weight.size(0)", "another depth", mm_weight=f16(8, 2)),
        shared("mm_weight.size(1)", "another depth, transposed", mm_weight=f16(2, 8), trans_mm_weight=True),
        shared("mm_x.size(0)", "no token", mm_x=f16(0, 4)),
        shared("mm_x.size(1)", "too deep", mm_x=f16(1024, 12289), mm_weight=f16(12289, 1)),
        shared("mm_weight.size(1)", "no column", mm_weight=f16(4, 0)),
        shared("mm_x.size(0)", "one expert a token", mm_x=f16(8192, 4)),
        shared("mm_x.size(0)", "sixteen experts a token", mm_x=f16(512, 4)),
        wrong("only Atlas A3", "another chip"),
    ]


WRONG = [*_of_both("alltoallv_gmm"), *_of_both("gmm_alltoallv")]
