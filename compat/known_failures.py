"""Whose it is that something does not pass, where it is not this package's: by suite and the beginning of a name."""

_STREAMS = (
    "PyTorch 2.13 refuses it while it traces, before a backend is asked: an input is mutated, then an event recorded"
)
_KERNEL_COMPILER = "compiles kernels for a device, which needs CANN's compiler"
_NOT_WHOLE = "the page's example is a piece: it uses names that it does not define"
_MEMORY = "the test's own tensors and its comparison in NumPy need more than the 8 GB that a process may have"
_PERMUTE = "test_npu_moe_token_permute_and_unpermute_backward.py::TestNpuFusedPermuteAndUnpermute"
_ROWS = "needs more than the 8 GB that a process may have: up to 49152 rows of 8192 numbers, several times over"
_OTHER_NAMES = "asks for names of nodes; PyTorch 2.13 gives streams and events others"
_A3_CHECKS = "asks for what Ascend 950's operator says of a wrong call"
_OVERFLOW = "torch_npu itself refuses it on A2 and later"
_OBFUSCATION = "a service of CANN's that hides models; no operator of a model"
_RE_ROUTING = "the test draws counts that add up to more than the tokens it passes; its page asks for equal ones"
_NO_ASSERTIONS = "the test's class lacks the assertions that it calls"
_W4A8 = (
    "its kernel for int4 weights reads a list of counts alone, also that of August 2026, and the recipe passes pairs"
)

WHOSE = {
    "documents": {
        "torch_npu-npu/torch-npu-npu-NPUPluggableAllocator-1": "needs a library that the reader is to build",
        "torch_npu-npu/torch-npu-npu-change_current_allocator-1": "needs a library that the reader is to build",
        "torch_npu-npu/torch_npu-npu-empty_virt_addr_cache-1": "allocates 58.6 GiB, as much as a whole NPU has",
        "torch_npu-npu/torch_npu-npu-mstx-": _NOT_WHOLE,
        "torch_npu-npu/torch_npu-npu_npugraph_handlers-2": "torch_npu 2.13 has no such name",
        "torch_npu-npu/（beta）torch_npu-npu-clear_npu_overflow_flag-1": _OVERFLOW,
        "torch_npu-npu/（beta）torch_npu-npu-get_npu_overflow_flag-1": _OVERFLOW,
        "torch_npu-npu/（beta）torch_npu-npu-obfuscation_": _OBFUSCATION,
        "torch_npu-npu/（beta）torch_npu-npu-set_dump-1": "needs a file that the reader is to write",
        "torch_npu-profiler/": _NOT_WHOLE,
        "torch_npu/（beta）torch_npu-fast_gelu-2": "is what an interpreter prints, not a program",
    },
    "documents-ranks": {
        "torch_npu/torch_npu-npu_alltoallv_quant_gmm-": "Ascend 950 alone has the operator",
        "torch_npu/torch_npu-npu_mm_all_reduce_base-2": (
            "the example's antiquant_scale is as long as x2 has rows; its page asks for as many as x2 has columns"
        ),
    },
    "op-plugin": {
        "test_atb_mla_with_lse.py": "the test passes lengths beyond the blocks of its table",
        "test_atb_reshape_and_cache.py": _MEMORY,
        "test_moe_distribute_dispatch_combine_urma.py": "is a function with arguments that pytest takes for a test",
        "test_npu_attn_softmax.py": _MEMORY,
        "test_npu_chunk_gated_delta_rule.py::test": "is a function with arguments that pytest takes for a test",
        "test_npu_exponential.py::TestExponential::test_exponential_no_zero": (
            "draws 50 thousand million numbers, minutes for a CPU's generator"
        ),
        "test_npu_exponential.py::TestExponential::test_npu_exponential": (
            "compares up to a hundred million numbers at a time by scipy's kstest, which sorts them"
        ),
        "test_npu_gather_sparse_index.py": "draws integers by randn, for which PyTorch has no kernel on a CPU",
        "test_npu_moe_re_routing.py": _RE_ROUTING,
        f"{_PERMUTE}::test_permute[": _ROWS,
        f"{_PERMUTE}::test_unpermute[": _ROWS,
    },
    "op-plugin-a3": {"test_quant_gmm_alltoallv.py": _A3_CHECKS},
    "pytorch": {
        "custom_ops/test_sign_bits_unpack.py": "the test itself fails with this NumPy",
        "npu/test_aclgraph_pin_memory.py::TestAclgraphPinMemory::test_capture_rejects_expandable_segments": (
            "the host NPU has no expandable segments"
        ),
        "npu/test_aclgraph_rng_state.py::TestAclgraphRngState::test_graph_rng_after_failed_capture": (
            "here a capture is lost by a call that needs values; the test says that a device refuses the call alone"
        ),
        "npu/test_compile_aclgraph_update.py": "compiles by Inductor for the npu, which needs CANN's compiler",
        "npu/test_graph_tree.py::TestNPUGraphTreeManager::test_check_warn_on_unable_to_start_executing_warn": (
            "asks for a warning of torch_npu's own without the full stop that it ends in"
        ),
        "npu/test_graph_tree.py::TestNPUGraphTreeManager::test_run_": _NO_ASSERTIONS,
        "npu/test_graph_tree.py::TestNPUGraphTreeManager::test_set_to_running_backward": _NO_ASSERTIONS,
    },
    "recipes": {
        "deepseek_r1-w4a8, ": _W4A8,
        "hy3, 2 ranks, ge_graph": (
            "outside of npugraph_ex the recipe passes tensors where the operator has lists of sizes, which PyTorch "
            "2.13 does not trace for any backend or device; its settings are for npugraph_ex"
        ),
    },
    "vllm-ascend": {
        "methods/a2/test_w4a4_flatquant.py": "the test draws weights beyond four bits",
    },
    "torchair-captured": {
        "smoke/aclgraph_test.py::AclgraphTest::test_npugraph_ex_core_limit_with_static_kernel": (
            "asks for what CANN 9.0.0 has; the host stands for 8.5, and passes with GRAPH_QUANT_CANN=9.0.0"
        ),
        "smoke/aclgraph_test.py::AclgraphTest::test_stream_event_replace_": _OTHER_NAMES,
        "smoke/hcom_static_kernel_test.py": _KERNEL_COMPILER,
        "smoke/stream_test.py::StreamTest::test_builtin_inplace_arg_": _STREAMS,
        "smoke/stream_test.py::StreamTest::test_custom_and_builtin_": _STREAMS,
    },
    "torchair-smoke": {
        "aclgraph_test.py::AclgraphTest::test_aclgraph_cache_with_static_kernel": _KERNEL_COMPILER,
        "aclgraph_test.py::AclgraphTest::test_stream_": _OTHER_NAMES,
    },
}
