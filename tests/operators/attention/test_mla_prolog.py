"""The quantised forms of npu_mla_prolog_v3, and what it does to its caches."""

import pytest
import torch

from operators.attention.mla_prolog import FULL, HEADS, MODES, PART, PLAIN, RANK, ROW, V3, form
from support.call_table import overload
from support.tensors import on

PROLOG = overload(f"npu_{V3}")


def clones(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in tensors.items()}


def test_caches_are_written_in_place_on_the_npu() -> None:
    before, empty = (torch.zeros_like(PLAIN[name]) for name in ("kv_cache", "kr_cache"))
    plain = {**PLAIN, "kv_cache": before, "kr_cache": empty}
    arguments = {name: on("npu", value) for name, value in plain.items()}
    PROLOG(**arguments)
    *_, kv_cache, kr_cache = overload(f"npu_{V3}_functional")(**plain)
    assert torch.equal(arguments["kv_cache"].cpu(), kv_cache)
    assert torch.equal(arguments["kr_cache"].cpu(), kr_cache)
    # The first token's index is -1: it is written nowhere.
    assert (kv_cache != before).any(-1).sum() == 2


@pytest.mark.parametrize("name", ["npu_mla_prolog", "npu_mla_prolog_v2"])
def test_the_first_versions_write_their_caches(name: str) -> None:
    """torch_npu passes the caches to the kernel, although the schemas do not declare them as mutated."""
    caches = {argument: torch.zeros_like(PLAIN[argument]).npu() for argument in ("kv_cache", "kr_cache")}
    arguments = {argument: on("npu", value) for argument, value in PLAIN.items()} | caches
    _, _, kv_cache, kr_cache, *_ = overload(name)(**arguments)
    assert (caches["kv_cache"].cpu() != 0).any(-1).sum() == 2
    for written, result in zip(caches.values(), (kv_cache, kr_cache), strict=True):
        assert torch.equal(result.cpu(), written.cpu())


def test_int8_query_dequantises_to_the_query() -> None:
    arguments = clones(FULL)
    query, rope, scale, _, _ = PROLOG(**arguments, **MODES)
    floats = {**clones(FULL), "kv_cache": FULL["kv_cache"].bfloat16()}
    del floats["quant_scale_ckv"]
    plain, plain_rope, *_ = PROLOG(**floats, weight_quant_mode=2)
    restored = query.float() * scale.reshape(3, HEADS, 1)
    # Half a step of 127, and as much again from the rounding to float16 before it.
    assert bool(((restored - plain.float()).abs() <= scale.reshape(3, HEADS, 1) * 0.57).all())
    assert scale.shape == (3, HEADS, 1)
    # The rope part comes divided by the scales, for npu_fused_infer_attention_score_v2 to take them once for both.
    wanted = plain_rope.float() * FULL["quant_scale_ckv"] / scale.reshape(3, HEADS, 1)
    torch.testing.assert_close(rope.float(), wanted, rtol=2.0**-8, atol=0)


def test_the_second_version_reads_the_first_of_its_scales() -> None:
    third = clones({**FULL, "quant_scale_ckv": ROW["quant_scale_ckv"][0, :1].contiguous()})
    query, rope, scale, _, _ = PROLOG(**third, **MODES)
    second = {name: on("npu", value) for name, value in ROW.items()}
    results = overload("npu_mla_prolog_v2")(**second)
    for got, wanted in zip(results, (query, rope, third["kv_cache"], third["kr_cache"], scale), strict=True):
        assert torch.equal(got.cpu(), wanted)


def test_int8_norm_of_query_by_hand() -> None:
    _, _, _, norm, scale = PROLOG(**clones(PART), weight_quant_mode=1, kv_cache_quant_mode=2, query_norm_flag=True)
    floats = {**form((2, 2)), **{name: PART[name] for name in ("token_x", "weight_dq", "rmsnorm_gamma_cq")}}
    _, _, _, plain, _ = PROLOG(**clones(floats), query_norm_flag=True)
    assert norm.dtype == torch.int8
    assert scale.shape == (4, 1)
    # plain was rounded to bfloat16 where the integers were made from float32.
    wanted = plain.float().reshape(4, RANK)
    bound = scale * 0.51 + wanted.abs() * 2.0**-8
    assert bool(((norm.reshape(4, RANK).float() * scale - wanted).abs() <= bound).all())


def test_blocks_of_sequences_hold_their_tokens() -> None:
    arguments = form((5,))
    rows = PROLOG(**clones({**arguments, "cache_index": torch.arange(5)}))
    blocks = clones({**arguments, "cache_index": torch.tensor([1, 0])})
    ends = torch.tensor([2, 5], dtype=torch.int32)
    PROLOG(**blocks, cache_mode="PA_BLK_BSND", actual_seq_len=ends)
    slots = clones({**arguments, "cache_index": torch.tensor([16, 17, 0, 1, 2])})
    PROLOG(**slots)
    assert rows[0].shape == (5, HEADS, 512)
    assert torch.equal(blocks["kv_cache"], slots["kv_cache"])
    assert torch.equal(blocks["kr_cache"], slots["kr_cache"])


def test_a_graph_that_reads_its_caches_writes_them() -> None:
    """TorchAir drops the copy back into a cache that the graph reads later, so the node itself must write."""
    modes = {**MODES, "cache_mode": "PA_NZ"}

    def decode(arguments: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        query, *_ = PROLOG(**arguments, **modes)
        return query, arguments["kv_cache"].view(2, 1, 16, 16, 32) + 1, arguments["kr_cache"].view(2, 1, 4, 16, 16) + 1

    graph = {name: value.npu() for name, value in FULL.items()}
    torch.compile(decode, backend="npu", fullgraph=True, dynamic=False)(graph)
    eager = clones(FULL)
    decode(eager)
    assert not torch.equal(eager["kv_cache"], FULL["kv_cache"])
    for cache in ("kv_cache", "kr_cache"):
        assert torch.equal(graph[cache].cpu(), eager[cache])
