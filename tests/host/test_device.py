"""npu:0 in host memory behaves like an NPU."""

import copy
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from graph_quant.host.alias import as_cpu, to_npu
from graph_quant.start import preload


def test_round_trip_between_devices() -> None:
    x = torch.randn(3, 4)
    for there in (
        x.npu(),
        x.to("npu"),
        x.to("npu:0"),
        x.to(torch.device("npu", 0)),
        torch.empty_like(x, device="npu").copy_(x),
    ):
        assert there.device == torch.device("npu", 0)
        assert torch.equal(there.cpu(), x)


def test_repr_shows_the_device() -> None:
    x = torch.tensor([[1.0029, -1.2373], [0.5791, 0.1101]], dtype=torch.float16).npu()
    assert str(x) == ("tensor([[ 1.0029, -1.2373],\n        [ 0.5791,  0.1101]], device='npu:0', dtype=torch.float16)")
    assert (
        str(torch.tensor([1, 4, 6], dtype=torch.int32).npu()) == "tensor([1, 4, 6], device='npu:0', dtype=torch.int32)"
    )


def test_alias_shares_memory() -> None:
    x = torch.zeros(2, 3, device="npu")
    as_cpu(x[:, 1:]).fill_(5)
    assert x.tolist() == [[0, 5, 5], [0, 5, 5]]
    assert as_cpu(x).data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(3.0).expand(4, 3),
        torch.arange(24.0).reshape(2, 3, 4)[:, ::2, 1:],
        torch.empty(0, 5),
        torch.tensor(3.5),
        torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    ],
    ids=["transposed", "expanded", "strided", "empty", "scalar", "channels_last"],
)
def test_to_npu_keeps_values_and_strides(tensor) -> None:
    moved = to_npu(tensor)
    assert torch.equal(moved.cpu(), tensor)
    assert moved.stride() == tensor.stride()


def test_results_are_written_without_a_copy() -> None:
    x = torch.ones(1000, device="npu")
    x + x  # the first call learns the shape
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    y = x + x
    assert torch.npu.memory_allocated() - before >= y.nbytes, "the result is device memory"


def test_views_and_in_place_operators_share_memory() -> None:
    x = torch.zeros(4, 4, device="npu")
    x[1:3, ::2].add_(1)
    x.t()[0].mul_(7)
    assert x.sum().item() == 2 + 2 * 7
    assert x.view(2, 8).data_ptr() == x.data_ptr()


@pytest.mark.parametrize("size", [0, 3, 5])
def test_out_is_resized(size) -> None:
    x = torch.arange(3.0, device="npu")
    out = torch.empty(size, device="npu")
    if size == 5:
        with pytest.warns(UserWarning, match="resized"):
            torch.add(x, x, out=out)
    else:
        torch.add(x, x, out=out)
    assert out.tolist() == [0, 2, 4]


def test_mixed_and_unknown_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="npu") + torch.ones(3)
    assert (torch.ones(3, device="npu") + torch.tensor(1)).sum().item() == 6, "a CPU scalar is welcome everywhere"
    for make in (lambda: torch.zeros(1, device="npu:1"), lambda: torch.ones(1).to("npu:7")):
        with pytest.raises(RuntimeError, match="npu:0 only"):
            make()


def test_model_trains_saves_and_loads() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    twin = copy.deepcopy(model)
    on_npu = model.npu()
    x = torch.randn(16, 4)
    losses = []
    for net, data in ((on_npu, x.npu()), (twin, x)):
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            loss = net(data).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == losses[1]
    file = io.BytesIO()
    torch.save(on_npu.state_dict(), file)
    for map_location, device in ((None, "npu"), ("cpu", "cpu")):
        file.seek(0)
        state = torch.load(file, map_location=map_location)
        assert {value.device.type for value in state.values()} == {device}
    twin.load_state_dict(state)
    assert torch.equal(twin(x), on_npu(x.npu()).cpu())


def test_seeds_states_and_generators() -> None:
    def draw() -> list[float]:
        return torch.rand(4, device="npu").tolist()

    torch.manual_seed(5)
    first = draw()
    assert first != draw()
    torch.manual_seed(5)
    assert first == draw()
    state = torch.npu.get_rng_state()
    second = draw()
    torch.npu.set_rng_state(state)
    assert second == draw()
    own = torch.Generator(device="npu").manual_seed(1)
    again = torch.Generator(device="npu").manual_seed(1)
    assert (
        torch.randn(3, device="npu", generator=own).tolist() == torch.randn(3, device="npu", generator=again).tolist()
    )
    cpu_state = torch.get_rng_state()
    torch.nn.functional.dropout(torch.ones(8, device="npu"))
    assert torch.equal(torch.get_rng_state(), cpu_state), "the CPU's stream is its own"


def test_streams_events_and_memory() -> None:
    stream = torch.npu.Stream()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    with torch.npu.stream(stream):
        start.record()
        total = torch.ones(256, 256, device="npu").matmul(torch.ones(256, 256, device="npu")).sum()
        end.record()
    torch.npu.current_stream().wait_stream(stream)
    torch.npu.synchronize()
    assert end.query()
    assert start.elapsed_time(end) > 0
    assert total.item() == 256**3
    free, total_bytes = torch.npu.mem_get_info()
    assert 0 < free < total_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    before = torch.npu.memory_allocated()
    block = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    assert torch.npu.memory_allocated() - before >= block.nbytes


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_the_size_of_the_device_less_its_own_allocations() -> None:
    torch.npu.empty_cache()
    before, total = torch.npu.mem_get_info()
    reserved = torch.npu.memory_reserved()
    pinned = torch.zeros(1 << 20, dtype=torch.uint8).pin_memory()
    block = torch.empty(32 << 20, dtype=torch.uint8, device="npu")
    used = torch.npu.memory_reserved() - reserved
    assert used >= block.nbytes
    assert torch.npu.mem_get_info() == (before - used, total), "neither other processes nor host memory count"
    del block, pinned
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info() == (before, total)


def test_zeroed_memory_is_not_committed() -> None:
    size = torch.npu.mem_get_info()[0] * 3 // 4
    before = resident_bytes()
    block = torch.zeros(size, dtype=torch.int8, device="npu")
    used = block[5 : 5 + (80 << 20)].fill_(1)
    assert int(used[::4096].sum()) == len(used[::4096])
    block.zero_()
    assert not block[: 96 << 20].any()
    used.fill_(1)
    used[1:].zero_()
    assert block[:8].tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert not block[6 : 96 << 20].any()
    assert resident_bytes() - before < 1 << 30


@pytest.mark.parametrize("zero", [0, 0.0, False])
def test_large_tensors_are_filled_with_zeros(zero: float) -> None:
    x = torch.full((40 << 20,), 1, dtype=torch.bfloat16, device="npu")
    x.fill_(zero)
    assert not x.any()
    assert x[:2].fill_(-0.0).signbit().all()
    assert x.fill_(-0.0)[-5:].signbit().all()
    assert torch.zeros(5, 8 << 20, device="npu").dtype == torch.float32
    assert x.view(2, -1).t().fill_(1).zero_().stride() == (1, 20 << 20)


@pytest.mark.parametrize(("size", "total"), [("3GiB", 3 << 30), ("1073741824", 1 << 30)])
def test_the_size_of_the_device_is_a_setting(run_python, size: str, total: int) -> None:
    code = f"""import graph_quant, torch
assert torch.npu.mem_get_info() == ({total}, {total})
torch.empty({total} - (64 << 20), dtype=torch.int8, device="npu")
try:
    torch.empty({total} + 1, dtype=torch.int8, device="npu")
except torch.OutOfMemoryError:
    print("out of memory")"""
    done = run_python(code, GRAPH_QUANT_MEMORY=size)
    assert done.stdout == "out of memory\n", done.stderr


@pytest.mark.parametrize("size", ["0", "4GB", "-1", "x", "1.5GiB"])
def test_a_size_that_is_not_understood_is_refused(monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv(preload.MEMORY, size)
    with pytest.raises(preload.HostNpuError, match="GRAPH_QUANT_MEMORY must be a size such as 16GiB, in bytes"):
        preload._check_memory()


def test_allocations_do_not_leak() -> None:
    torch.empty(5000, device="npu")
    before = torch.npu.memory_reserved()
    for size in range(10_000):
        torch.empty(size % 5000, device="npu")
    assert torch.npu.memory_reserved() == before


def test_threads_compute_at_the_same_time() -> None:
    answers: list[float] = []

    def work(seed: int) -> None:
        x = torch.full((64, 64), float(seed), device="npu")
        for _ in range(50):
            x = (x @ x).clamp(max=float(seed))
        answers.append(x.sum().item() / 64 / 64 / seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1.0] * 4


def test_concurrent_processes_and_forked_workers(run_python) -> None:
    code = """
import graph_quant, torch
from torch.utils.data import DataLoader, TensorDataset
x = torch.ones(64, 64, device="npu")
total = (x @ x).sum()
for (batch,) in DataLoader(TensorDataset(torch.arange(64.0)), batch_size=8, num_workers=2):
    total += batch.npu().sum()
print(total.item())
"""
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run_python(code), range(2)))
    assert [result.stdout for result in results] == [f"{64.0**3 + 2016}\n"] * 2, results[0].stderr


def test_grad_scaler_skips_step_on_overflow() -> None:
    assert torch.npu.utils.is_support_inf_nan()
    model = torch.nn.Linear(2, 1, bias=False).npu()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.5), torch.npu.amp.GradScaler(init_scale=4.0)
    before = model.weight.detach().clone()
    for data in (torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, float("inf")]])):
        optimizer.zero_grad()
        scaler.scale(model(data.npu()).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert torch.equal(model.weight.cpu(), before.cpu() - torch.tensor([[0.5, 1.0]]))
    assert scaler.get_scale() == 2.0
