"""npu_kv_rmsnorm_rope_cache, which writes its caches in place although its schema does not say so."""

import pytest
import torch
import torch_npu
import torchair
from graph_quant.host.engine import use
from torch._inductor.utils import run_and_get_code

from operators.cache.kv_rmsnorm_rope_cache import call, slots
from support.tensors import bf16


def test_first_version_writes_and_returns_its_caches() -> None:
    args = [tensor.npu() for tensor in call(index=slots(5, 17, 0))]
    k_cache, ckv_cache = args[5], args[6]
    k, c, k_new, ckv_new = torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional(*args, cache_mode="PA", is_output_kv=True)
    results = torch_npu.npu_kv_rmsnorm_rope_cache(*args, cache_mode="PA", is_output_kv=True)
    for one, other in zip(results, (k_new, ckv_new, k, c), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(k_cache, k_new)
    assert torch.equal(ckv_cache, ckv_new)
    assert results[0].data_ptr() == k_cache.data_ptr(), "no copy: the caches take most of a device"
    assert results[1].data_ptr() == ckv_cache.data_ptr()


def test_captured_first_version_returns_its_caches() -> None:
    args = [tensor.npu() for tensor in call(index=slots(5, 17, 0))]
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        results = torch_npu.npu_kv_rmsnorm_rope_cache(*args, cache_mode="PA")
    expected = torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional(*args, cache_mode="PA")
    graph.replay()
    assert results[0].data_ptr() == args[5].data_ptr()
    assert torch.equal(results[0], expected[2])
    assert torch.equal(results[1], expected[3])


def test_graph_sees_the_writes_of_the_second_version() -> None:
    args = [tensor.npu() for tensor in call(index=slots(5, -1, 0))]
    _, _, k_new, ckv_new = torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional(*args, cache_mode="PA_NZ")
    torch._dynamo.reset()
    graph = torch.compile(
        lambda *args: torch_npu.npu_kv_rmsnorm_rope_cache_v2(*args, cache_mode="PA_NZ"), backend="npu", fullgraph=True
    )
    graph(*args)
    assert torch.equal(args[5], k_new)
    assert torch.equal(args[6], ckv_new)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_slot_beyond_the_cache_is_refused(device: str) -> None:
    args = [tensor.to(device) for tensor in call(index=slots(0, 24, 1))]
    with pytest.raises(RuntimeError, match=r"npu_kv_rmsnorm_rope_cache: index\[1\] must lie in \[-1, 23\], got 24"):
        torch_npu.npu_kv_rmsnorm_rope_cache(*args, cache_mode="PA")


@pytest.mark.parametrize("mode", ["PA", "PA_NZ", "PA_BLK_BNSD", "Norm"])
def test_strided_caches_are_written_in_place(mode: str) -> None:
    norm = {"batch": 2, "length": 2, "k": bf16(2, 1, 6, 64), "ckv": bf16(2, 1, 6, 512)}
    blocks = {"batch": 1, "length": 11, "index": slots(8, 0)}
    options = {"Norm": {**norm, "index": slots(1, 2, 3, -1).view(2, 2)}, "PA_BLK_BNSD": blocks}
    args = [tensor.npu() for tensor in call(**options.get(mode, {"index": slots(5, -1, 0)}))]
    _, _, *expected = torch_npu.npu_kv_rmsnorm_rope_cache_v2_functional(*args, cache_mode=mode)
    buffers = [
        torch.zeros(tensor.size(0), 2, *tensor.shape[1:3], 2 * tensor.size(3)).to(tensor) for tensor in args[5:7]
    ]
    views = [tensor[:, 1, ..., : tensor.size(-1) // 2] for tensor in buffers]
    for view, cache in zip(views, args[5:7], strict=True):
        view.copy_(cache)
    torch_npu.npu_kv_rmsnorm_rope_cache_v2(*args[:5], *views, cache_mode=mode)
    for buffer, view, right in zip(buffers, views, expected, strict=True):
        assert torch.equal(view, right)
        view.zero_()
        assert not buffer.any()


def test_inductor_writes_the_caches_themselves() -> None:
    """Compiled code writes rows in place, and allocates no copy of a cache: caches take most of a device."""
    *rest, k_cache, ckv_cache = call(index=slots(5, -1, 0))
    eager = k_cache.clone(), ckv_cache.clone()
    expected = torch_npu.npu_kv_rmsnorm_rope_cache_v2(*rest, *eager, cache_mode="PA", is_output_kv=True)

    def write(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch_npu.npu_kv_rmsnorm_rope_cache_v2(*args, cache_mode="PA", is_output_kv=True)  # type: ignore[no-any-return]

    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    compiled = torch.compile(write, backend=backend, fullgraph=True, dynamic=False)
    with use("inductor"):
        results, code = run_and_get_code(compiled, *rest, k_cache, ckv_cache)
    assert all(map(torch.equal, (*results, k_cache, ckv_cache), (*expected, *eager)))
    (generated,) = code
    assert "write_kv_entries" in generated
    for cache in (k_cache, ckv_cache):
        assert f"empty_strided_cpu({tuple(cache.shape)}" not in generated
