"""Whose it is that something does not pass, where it is not this package's: by suite and the beginning of a name."""

WHOSE = {
    "documents-ranks": {
        "torch_npu/torch_npu-npu_alltoallv_quant_gmm-": "Ascend 950 alone has the operator",
        "torch_npu/torch_npu-npu_mm_all_reduce_base-2": (
            "the example's antiquant_scale is as long as x2 has rows; its page asks for as many as x2 has columns"
        ),
    },
}
