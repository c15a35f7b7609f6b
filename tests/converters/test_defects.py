"""Defects of torch_npu 2.13's own inference and converters, one test each, that this project must not share."""

import pytest
import torch
import torch_npu

from support import upstream  # noqa: F401 (puts upstream in place when asked to)
from support.call_table import INT4, packed
from support.lowering import inputs, lower, node, outputs, types
from support.tensors import bf16, ends, f16, f32, i8, i32

META = torch.device("meta")


def test_1_group_quant_without_dst_dtype_is_int8() -> None:
    graph = lower(lambda x, s, g: torch_npu.npu_group_quant(x, s, g), f16(6, 16), f32(2, 16), ends(1, 6))
    assert node(graph, "GroupQuant").attr["dst_type"].i == 2


def test_2_group_quant_int4_says_so_in_its_descs() -> None:
    graph = lower(
        lambda x, s, g: torch_npu.npu_group_quant(x, s, g, dst_dtype=INT4), f16(6, 16), f32(2, 16), ends(1, 6)
    )
    assert outputs(node(graph, "GroupQuant")) == ["DT_INT4"]
    assert inputs(node(graph, "Bitcast")) == ["DT_INT4"]
    assert outputs(node(graph, "Bitcast")) == ["DT_INT32"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch_npu.npu_group_quant(
            f16(6, 16).to(META), f32(2, 16).to(META), ends(1, 6).to(META), dst_dtype=torch.float64
        ),
        lambda: torch_npu.npu_quantize(f16(6, 16).to(META), f32(16).to(META), None, 99, -1, False),
        lambda: torch_npu.npu_dynamic_quant(f16(6, 16).to(META), dst_type=99),
        lambda: torch_npu.npu_dynamic_quant_asymmetric(f16(6, 16).to(META), dst_type=99),
    ],
    ids=["group_quant", "quantize", "dynamic_quant", "dynamic_quant_asymmetric"],
)
def test_2_unknown_destinations_are_not_silently_int8(call: object) -> None:
    with pytest.raises(RuntimeError, match="must be one of"):
        call()  # type: ignore[operator]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch_npu.npu_group_quant(f16(6, 16).to(META), f32(2, 8).to(META), ends(1, 6).to(META)),
        lambda: torch_npu.npu_quantize(f16(6, 16).to(META), i8(16).to(META), None, torch.qint8, -1, False),
        lambda: torch_npu.npu_dynamic_quant(f32(16).to(META)[None, None]),
    ],
    ids=["group_quant", "quantize", "dynamic_quant"],
)
def test_3_shapes_and_dtypes_are_checked(call: object) -> None:
    with pytest.raises(RuntimeError, match="must"):
        call()  # type: ignore[operator]


def test_4_trans_quant_param_round_modes() -> None:
    assert torch_npu.npu_trans_quant_param(f32(16).to(META), None, None).shape == (16,)
    with pytest.raises(RuntimeError, match="round_mode must be None, 0 or 1, got 2"):
        torch_npu.npu_trans_quant_param(f32(16).to(META), None, 2)


@pytest.mark.parametrize("scale", [f32(0), f16(16)], ids=["empty", "float16"])
def test_4_trans_quant_param_refuses(scale: torch.Tensor) -> None:
    with pytest.raises(RuntimeError, match="scale"):
        torch_npu.npu_trans_quant_param(scale.to(META))


def test_4_trans_quant_param_with_sizes_known_at_run_time() -> None:
    scale, offset = f32(16), f32(16)
    for tensor in (scale, offset):
        torch._dynamo.decorators.mark_unbacked(tensor, 0)
    torch._dynamo.reset()
    compiled = torch.compile(torch_npu.npu_trans_quant_param, backend="eager", fullgraph=True)
    assert compiled(scale, offset).shape == (16,)


def test_5_a_scale_of_one_is_widened_to_its_offset() -> None:
    graph = lower(torch_npu.npu_trans_quant_param, f32(1), f32(16), dynamic=False)
    assert types(graph) == ["Const", "BroadcastTo", "TransQuantParamV2", "Bitcast"]


def test_5_parameters_are_uint64_in_ge_and_int64_outside() -> None:
    graph = lower(torch_npu.npu_trans_quant_param, f32(16))
    assert outputs(node(graph, "TransQuantParamV2")) == ["DT_UINT64"]
    assert inputs(node(graph, "NetOutput")) == ["DT_INT64"]
    assert node(graph, "NetOutput").input[0].startswith("Bitcast")


def test_6_perchannel_int4_keeps_the_shape_of_its_input() -> None:
    for op in (torch_npu.npu_dynamic_quant, torch_npu.npu_dynamic_quant_asymmetric):
        y, scale, *_ = op(f16(2, 3, 16).to(META), dst_type=INT4, quant_mode="perchannel")
        assert (y.shape, scale.shape) == ((2, 3, 2), (2, 16))


@pytest.mark.parametrize("op", ["group_quant", "quantize", "dynamic_quant"])
def test_7_a_width_known_at_run_time_can_be_packed(op: str) -> None:
    calls = {
        "group_quant": lambda x: torch_npu.npu_group_quant(x, torch.ones(1, 16), ends(6), dst_dtype=INT4),
        "quantize": lambda x: torch_npu.npu_quantize(x, torch.ones(1).half(), None, INT4, -1, False),
        "dynamic_quant": lambda x: torch_npu.npu_dynamic_quant(x, dst_type=INT4)[0],
    }
    x = f16(6, 16)
    torch._dynamo.decorators.mark_unbacked(x, 1)
    torch._dynamo.reset()
    assert torch.compile(calls[op], backend="eager", fullgraph=True)(x).shape == (6, 2)


@pytest.mark.parametrize("mode", ["pertensor", "perchannel"])
def test_8_symmetric_modes_use_the_symmetric_kernel(mode: str) -> None:
    graph = lower(lambda x: torch_npu.npu_dynamic_quant(x, quant_mode=mode), f16(2, 3, 16))
    assert "DynamicQuantV2" not in types(graph)
    assert "DynamicQuant" in types(graph)


def test_8_what_a2_lacks_is_refused() -> None:
    with pytest.raises(Exception, match="kernels of Ascend A2 and A3 cannot do dst_type_max"):
        lower(lambda x: torch_npu.npu_dynamic_quant(x, dst_type_max=9.0), f16(6, 16))


def test_9_quantize_refuses_what_the_converter_or_device_would() -> None:
    x = f16(2, 3, 16).to(META)
    with pytest.raises(RuntimeError, match="div_mode"):
        torch_npu.npu_quantize(x, f32(16).to(META), None, INT4, -1, True)
    with pytest.raises(RuntimeError, match="axis"):
        torch_npu.npu_quantize(x, f16(16).to(META), None, torch.qint8, -3, False)
    with pytest.raises(RuntimeError, match="scales"):
        torch_npu.npu_quantize(x, f16(16).to(META), None, torch.qint8, -1, True)


def test_9_quantize_sends_one_dtype() -> None:
    graph = lower(lambda x, s, z: torch_npu.npu_quantize(x, s, z, torch.qint8, -1, False), f16(6, 16), f32(16), f32(16))
    assert inputs(node(graph, "AscendQuantV2")) == ["DT_FLOAT"] * 3


def test_10_a_batch_of_none_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"x1\.size\(0\) must be at least 1, got 0"):
        torch_npu.npu_quant_matmul(i8(0, 4, 32).to(META), i8(1, 32, 16).to(META), packed(16).to(META))


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("pertoken_scale", {"scale": f32(16), "pertoken_scale": f32(3), "output_dtype": torch.float16}),
        ("scale", {"scale": f16(16), "output_dtype": torch.float16}),
        ("offset", {"scale": packed(16), "offset": f32(16), "output_dtype": torch.float16}),
        ("bias", {"scale": packed(16), "bias": f32(16)}),
        ("x1", {"x1": bf16(4, 32), "scale": packed(16)}),
    ],
)
def test_10_quant_matmul_refuses(argument: str, options: dict[str, object]) -> None:
    arguments = {"x1": i8(4, 32), "x2": i8(32, 16), **options}
    with pytest.raises(RuntimeError, match=argument):
        torch_npu.npu_quant_matmul(**{name: on_meta(value) for name, value in arguments.items()})


def test_10_a_float_scale_is_packed_for_the_kernel() -> None:
    graph = lower(torch_npu.npu_quant_matmul, i8(4, 32), i8(32, 16), f32(16))
    assert types(graph) == ["TransQuantParamV2", "QuantBatchMatmulV3"]
    assert inputs(node(graph, "QuantBatchMatmulV3"))[2] == "DT_UINT64"


@pytest.mark.parametrize("op", ["group_quant", "quantize", "dynamic_quant", "dynamic_quant_asymmetric"])
def test_11_results_are_contiguous(op: str) -> None:
    x = f16(16, 6).to(META).t()
    results = {
        "group_quant": lambda: torch_npu.npu_group_quant(x, f32(2, 16).to(META), ends(1, 6).to(META)),
        "quantize": lambda: torch_npu.npu_quantize(x, f16(16).to(META), None, torch.qint8, -1, False),
        "dynamic_quant": lambda: torch_npu.npu_dynamic_quant(x)[0],
        "dynamic_quant_asymmetric": lambda: torch_npu.npu_dynamic_quant_asymmetric(x)[0],
    }[op]()
    assert results.stride() == (16, 1)


def test_int4_costs_four_nodes() -> None:
    for dynamic in (False, True):
        graph = lower(lambda x: torch_npu.npu_dynamic_quant(x, dst_type=INT4)[0], f16(6, 16), dynamic=dynamic)
        assert types(graph) == ["DynamicQuant", "Const", "Reshape", "Bitcast"]


def on_meta(value: object) -> object:
    return value.to(META) if isinstance(value, torch.Tensor) else value


def test_12_grouped_matmul_gives_int8_when_asked_to() -> None:
    graph = lower(
        lambda x, w, s, g: torch_npu.npu_grouped_matmul(
            [x], [w], scale=[s], group_list=g, split_item=3, group_type=0, output_dtype=torch.int8
        ),
        i8(6, 32),
        i8(2, 32, 16),
        packed(16, 2),
        ends(1, 6, dtype=torch.int64),
    )
    assert node(graph, "GroupedMatmul").attr["dtype"].i == -1


@pytest.mark.filterwarnings("ignore")
def test_13_training_batch_norm_keeps_running_statistics() -> None:
    torch.manual_seed(0)
    x, grad = torch.randn(4, 3, 5, 5), torch.randn(4, 3, 5, 5)
    results = []
    for compiled in (False, True):
        module = torch.nn.BatchNorm2d(3).npu().train()
        leaf = x.clone().npu().requires_grad_()
        torch._dynamo.reset()
        call = torch.compile(module, backend="npu", fullgraph=True) if compiled else module
        y = call(leaf)
        y.backward(grad.npu())
        results.append([y, module.running_mean, module.running_var, leaf.grad, module.weight.grad, module.bias.grad])
    for one, other in zip(*results, strict=True):
        # The gradients go through the variance and back, in float32.
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


def test_14_rotary_mul_lowers_its_mode() -> None:
    x, r = f16(2, 3, 4, 16), f16(1, 3, 1, 16)
    graph = lower(lambda x, r1, r2: torch_npu.npu_rotary_mul(x, r1, r2, "interleave"), x, r, r.clone())
    assert node(graph, "RotaryPositionEmbedding").attr["mode"].i == 1


def test_14_rotary_mul_lowers_the_mode_of_its_gradient() -> None:
    x, r = f16(2, 3, 4, 64), f16(1, 3, 1, 64)
    graph = lower(lambda x, r1, r2: torch.ops.npu.npu_rotary_mul_backward(x, x, r1, r2, "interleave"), x, r, r.clone())
    assert node(graph, "RotaryPositionEmbeddingGrad").attr["mode"].i == 1


def test_18_fusion_attention_lowers_its_shift() -> None:
    graph = lower(
        lambda q, pse: torch_npu.npu_fusion_attention(q, q, q, 2, "BNSD", pse=pse)[0],
        f16(1, 2, 3, 16),
        f16(1, 2, 3, 3),
    )
    attention = node(graph, "FlashAttentionScore")
    assert attention.input[3].startswith("arg1")


def test_19_gating_top_k_softmax_v2_has_a_node_of_its_own() -> None:
    graph = lower(lambda x: torch_npu.npu_moe_gating_top_k_softmax_v2(x, k=2, renorm=1), f16(4, 16))
    assert node(graph, "MoeGatingTopKSoftmaxV2").attr["renorm"].i == 1


def test_20_init_routing_v2_without_a_range_has_all_experts() -> None:
    experts = torch.zeros(4, 2, dtype=torch.int32)
    graph = lower(lambda x, e: torch_npu.npu_moe_init_routing_v2(x, e, expert_num=8), f16(4, 16), experts)
    assert list(node(graph, "MoeInitRoutingV3").attr["active_expert_range"].list.i) == [0, 8]


def test_20_init_routing_v2_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    experts = torch.zeros(4, 2, dtype=torch.int32, device=META)
    scale = f32(4).to(META)
    torch_npu.npu_moe_init_routing_v2(f16(4, 16).to(META), experts, scale=scale, expert_num=8)
    assert capsys.readouterr().out == ""


def test_21_finalize_routing_takes_float32_scales() -> None:
    rows, order, experts = bf16(8, 16), ends(*range(8)), torch.zeros(4, 2, dtype=torch.int32)
    graph = lower(
        torch_npu.npu_moe_finalize_routing, rows, bf16(4, 16), bf16(4, 16), bf16(3, 16), f32(4, 2), order, experts
    )
    assert inputs(node(graph, "MoeFinalizeRoutingV2"))[5] == "DT_FLOAT"


def test_22_weight_quant_batchmatmul_packs_a_float_quant_scale() -> None:
    def call(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, quant: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_weight_quant_batchmatmul(x, weight, scale, quant_scale=quant)

    graph = lower(call, f16(4, 64), i8(64, 16), f16(16), f32(16))
    assert inputs(node(graph, "WeightQuantBatchMatmulV2"))[4] == "DT_UINT64"


def test_23_rotate_quant_without_dst_dtype_is_int8() -> None:
    graph = lower(torch_npu.npu_rotate_quant, f16(3, 128), f16(32, 32))
    assert node(graph, "RotateQuant").attr["y_dtype"].i == 2


def test_24_quant_matmul_passes_its_group_sizes() -> None:
    def call(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        options = {"output_dtype": torch.float16, "group_sizes": [0, 0, 256]}
        return torch_npu.npu_quant_matmul(x1, x2, scale, offset=y, pertoken_scale=x, **options)

    graph = lower(call, i8(4, 512), i32(512, 2), packed(16, rows=2), f32(16), f32(4, 1))
    assert inputs(node(graph, "QuantBatchMatmulV4"))[:2] == ["DT_INT8", "DT_INT4"]
    assert node(graph, "QuantBatchMatmulV4").attr["group_size"].i == 256


def test_25_quant_scatter_in_place_keeps_the_axes_of_its_schema() -> None:
    def call(cache: torch.Tensor, indices: torch.Tensor, rows: torch.Tensor, scales: torch.Tensor) -> None:
        torch_npu.npu_quant_scatter_(cache.view(2, 5, 32), indices, rows, scales)

    graph = lower(call, i8(2, 160), ends(1, 3), bf16(2, 1, 32), bf16(32))
    attributes = node(graph, "QuantUpdateScatter").attr
    assert (attributes["axis"].i, attributes["quant_axis"].i) == (-2, -1)


def test_26_products_of_two_precisions_are_taken_in_float32() -> None:
    graph = lower(torch.mm, bf16(4, 64), f32(64, 8))
    assert inputs(node(graph, "MatMul"))[:2] == ["DT_FLOAT", "DT_FLOAT"]
    assert [ge_node.type for ge_node in graph.op].count("Cast") == 2


def test_27_group_norm_silu_takes_the_eps_of_its_schema() -> None:
    graph = lower(lambda x, w, b: torch_npu.npu_group_norm_silu(x, w, b, 2), f16(2, 4, 3), f16(4), f16(4))
    assert node(graph, "GroupNormSilu").attr["eps"].f == pytest.approx(1e-5)
    meta = [tensor.to(META) for tensor in (f16(2, 4, 3), f32(4), f32(4))]
    assert torch_npu.npu_group_norm_silu(*meta, 2)[1].dtype == torch.float16


def test_28_scatter_pa_kv_cache_without_a_mode_is_norm() -> None:
    def call(*arguments: torch.Tensor) -> object:
        return torch_npu.npu_scatter_pa_kv_cache_functional(*arguments, cache_mode=None)

    graph = lower(call, f16(2, 1, 16), f16(2, 1, 16), f16(3, 2, 1, 16), f16(3, 2, 1, 16), ends(1, 3))
    assert node(graph, "ScatterPaKvCache").attr["cache_mode"].s in (b"", b"Norm")  # left out, it is Norm


def test_30_rope_quant_kvcache_passes_its_cache_mode() -> None:
    x, angles, cache = f16(2, 192), f16(2, 64), i8(2, 4, 1, 64)
    graph = lower(
        lambda *arguments: torch_npu.npu_rope_quant_kvcache(*arguments, [64, 64, 64], cache_mode="page"),
        *(x, angles, angles, cache, cache.clone(), ends(1, 5), f32(64), f32(64)),
    )
    assert node(graph, "DequantRopeQuantKvcache").attr["cache_mode"].s == b"page"


def test_31_quant_matmul_gelu_takes_int4_as_documented() -> None:
    inputs = [tensor.to(META) for tensor in (i32(4, 4), i32(32, 2), f32(4), f32(16))]
    assert torch_npu.npu_quant_matmul_gelu(*inputs).shape == (4, 16)


def test_34_dynamic_block_quant_lowers_int8() -> None:
    graph = lower(lambda x: torch_npu.npu_dynamic_block_quant(x, dst_type=1), f16(2, 200))
    assert outputs(node(graph, "DynamicBlockQuant")) == ["DT_INT8", "DT_FLOAT"]


def test_35_results_that_are_not_wanted_have_the_shape_of_eager_calls() -> None:
    rows, vector = f16(2, 16).to(META), f16(16).to(META)
    quantised = torch_npu.npu_add_rms_norm_dynamic_quant(rows, rows, vector, output_mask=[True, False])
    assert [tuple(result.shape) for result in quantised] == [(2, 16), (), (2, 16), (2,), ()]
    losses = torch_npu.npu_cross_entropy_loss(rows, torch.zeros(2, dtype=torch.int64, device=META))
    assert [tuple(result.shape) for result in losses] == [(1,), (2, 16), (0,), (0,)]


def test_36_later_forms_of_fusion_attention_are_inferred() -> None:
    query, value = f16(3, 2, 16).to(META), f16(3, 2, 8).to(META)
    ends_of = {"actual_seq_qlen": [3], "actual_seq_kvlen": [3]}
    out, largest, total, *_ = torch_npu.npu_fusion_attention_v2(query, query, value, 2, "TND", **ends_of)
    assert [tuple(result.shape) for result in (out, largest, total)] == [(3, 2, 8), (3, 2, 8), (3, 2, 8)]
    gradients = torch.ops.npu.npu_fusion_attention_grad_v2(
        query, query, value, out, 2, "TND", softmax_max=largest, softmax_sum=total, attention_in=out, **ends_of
    )
    assert [tuple(result.shape) for result in gradients] == [(3, 2, 16), (3, 2, 16), (3, 2, 8), (0,), (0,), (0,), (0,)]


def test_37_quant_conv2d_passes_float16() -> None:
    graph = lower(
        lambda x, w, s: torch_npu.npu_quant_conv2d(x, w, s, [1, 1], [0, 0], [1, 1], 1, 0, "rint", 5),
        i8(1, 2, 4, 4),
        i8(3, 2, 2, 2),
        packed(3),
        dynamic=False,
    )
    assert node(graph, "QuantConv2D").attr["dtype"].i == 1
