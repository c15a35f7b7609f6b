"""Calls that a capture does not allow raise with the reason, and leave the process as it was."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
import torch_npu  # noqa: F401

FORBIDDEN = {
    "item": (lambda x: x.sum().item(), "aten::_local_scalar_dense: operation not permitted"),
    "bool": (lambda x: bool(x.sum() > 0), "aten::_local_scalar_dense: operation not permitted"),
    "equal": (lambda x: torch.equal(x, x), "aten::equal: operation not permitted"),
    "nonzero": (lambda x: x.nonzero(), "aten::nonzero: operation not permitted"),
    "mask": (lambda x: x[x > 0], "aten::index.Tensor: operation not permitted"),
    "unique": (lambda x: x.unique(), "_unique2: operation not permitted"),
    "cpu": (lambda x: x.cpu(), "aten::copy_: operation not permitted"),
    "pageable": (lambda x: x.copy_(torch.ones(4, 8), non_blocking=True), "only pinned memory"),
    "from the CPU": (lambda x: torch.tensor([1.0, 2.0], device=x.device), "aten::copy_: operation not permitted"),
    "device": (lambda x: torch.npu.synchronize(), "aclrtSynchronizeDevice: operation not permitted"),  # noqa: ARG005
    "stream": (lambda x: torch.npu.current_stream().synchronize(), "aclrtSynchronizeStream: operation not permitted"),  # noqa: ARG005
    "event": (lambda x: torch.npu.current_stream().record_event().synchronize(), "event last recorded in a capturing"),  # noqa: ARG005
}


@pytest.mark.parametrize("name", list(FORBIDDEN))
def test_calls_that_need_the_cpu_invalidate_the_capture(name: str) -> None:
    call, message = FORBIDDEN[name]
    x = torch.randn(4, 8).npu()
    stream = torch.npu.current_stream()
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError) as raised, torch.npu.graph(graph):
        call(x)
    whole = f"{raised.value}{raised.value.__context__}"
    assert message in whole
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    assert torch.npu.current_stream() == stream
    assert (x + 1).sum().item() == pytest.approx(float((x.cpu() + 1).sum()), rel=1e-5)


def test_failed_capture_releases_its_memory() -> None:
    x, pool = torch.ones(1 << 20).npu(), torch.npu.graph_pool_handle()
    kept: dict[object, list[int]] = {None: [], pool: []}
    for shared in (None, None, pool, pool):
        with pytest.raises(RuntimeError, match="not permitted"), torch.npu.graph(torch.npu.NPUGraph(), pool=shared):
            (x * 2).sum().item()
        gc.collect()
        torch.npu.empty_cache()
        kept[shared].append(torch.npu.memory_reserved())
    assert all(second - first < x.nbytes for first, second in kept.values()), kept


def test_user_exception_ends_the_capture() -> None:
    x = torch.ones(3).npu()
    stream = torch.npu.current_stream()

    def fail() -> None:
        with torch.npu.graph(torch.npu.NPUGraph()):
            _ = x + 1
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert not torch.npu.is_current_stream_capturing()
    assert torch.npu.current_stream() == stream


def test_exception_that_cannot_be_printed_ends_the_capture() -> None:
    x, stream = torch.ones(3).npu(), torch.npu.current_stream()
    for _ in range(2):
        with pytest.raises((KeyError, RuntimeError)), torch.npu.graph(torch.npu.NPUGraph()):
            raise KeyError(x)  # telling of it prints x, which is on the device
        assert torch.npu.current_stream() == stream
        assert (x + 1).tolist() == [2.0, 2.0, 2.0]


def test_capture_left_on_another_stream_is_ended() -> None:
    x, stream = torch.ones(3).npu(), torch.npu.current_stream()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must end on the same stream"), torch.npu.graph(torch.npu.NPUGraph()):
            torch.npu.set_stream(torch.npu.Stream())
        assert torch.npu.current_stream() == stream
        assert (x + 1).tolist() == [2.0, 2.0, 2.0]


def test_capture_that_cannot_begin_restores_the_stream() -> None:
    x, stream, graph = torch.ones(3).npu(), torch.npu.current_stream(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
    modes = torch._C._len_torch_dispatch_stack()
    for auto in (False, True):
        with (
            pytest.raises(RuntimeError, match="already owns a captured graph"),
            torch.npu.graph(graph, auto_dispatch_capture=auto),
        ):
            raise AssertionError("nothing is captured twice")
        assert torch.npu.current_stream() == stream
        assert torch._C._len_torch_dispatch_stack() == modes
    graph.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_wrong_call_does_not_invalidate_the_capture() -> None:
    x = torch.ones(3).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        with pytest.raises(RuntimeError, match="broadcast"):
            _ = x + torch.empty(4, device="npu")
        y = x * 2
    graph.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_nested_capture_is_refused_and_the_outer_one_continues() -> None:
    x = torch.ones(3).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        with pytest.raises(RuntimeError, match="the stream is capturing already"):
            torch.npu.NPUGraph().capture_begin()
        y = x + 1
    graph.replay()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_graph_is_captured_once_on_a_side_stream() -> None:
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        pass
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="must be captured on a non-default stream"):
        torch.npu.NPUGraph().capture_begin()


def test_unjoined_stream_is_named() -> None:
    x, side = torch.ones(3).npu(), torch.npu.Stream()

    def fork() -> None:
        with torch.npu.graph(torch.npu.NPUGraph()):
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                _ = x + 1

    with pytest.raises(RuntimeError, match="was not joined"):
        fork()


def test_waiting_for_an_outside_event_is_refused() -> None:
    event = torch.npu.Event()
    event.record()
    with pytest.raises(RuntimeError) as raised, torch.npu.graph(torch.npu.NPUGraph()):
        torch.npu.current_stream().wait_event(event)
    assert "recorded outside its capture" in f"{raised.value}{raised.value.__context__}"


def test_freed_input_is_named() -> None:
    x = torch.ones(2, 3).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = x + 1
    del x
    gc.collect()
    with pytest.raises(RuntimeError, match=r"uses a tensor of torch.float32 and shape \(2, 3\) that was freed"):
        graph.replay()
    assert result.size() == (2, 3)


def test_capture_must_end_in_the_thread_that_began_it() -> None:
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    errors: list[str] = []

    def end() -> None:
        with torch.npu.stream(stream):
            try:
                graph.capture_end()
            except RuntimeError as error:
                errors.append(str(error))

    with torch.npu.stream(stream):
        graph.capture_begin()
        thread = threading.Thread(target=end)
        thread.start()
        thread.join(timeout=60)
        assert "begun by another thread" in errors[0]
        with pytest.raises(RuntimeError):  # torch_npu has closed its books, the runtime has not
            graph.capture_end()
    assert not torch.npu.is_current_stream_capturing()


def test_other_threads_work_during_a_capture() -> None:
    x = torch.ones(3).npu()
    outcomes: list[object] = []

    def work() -> None:
        outcomes.append(x + 1)
        try:
            outcomes.append((x + 1).sum().item())
        except RuntimeError as error:
            outcomes.append(str(error))

    for mode in ("global", "thread_local"):
        with torch.npu.graph(torch.npu.NPUGraph(), capture_error_mode=mode):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join(timeout=60)
    assert outcomes[0].tolist() == outcomes[2].tolist() == [2.0, 2.0, 2.0]
    assert "operation not permitted when stream is capturing" in outcomes[1]
    assert outcomes[3] == 6.0


def test_replays_by_several_threads_are_serialized() -> None:
    x, graph = torch.zeros(64, 64).npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        for _ in range(20):
            x.add_(1)

    def work() -> None:
        for _ in range(30):
            graph.replay()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert x.unique().tolist() == [3 * 30 * 20.0]


@pytest.mark.parametrize("change", ["freed", "moved"])
def test_replay_onto_resized_memory_is_refused(change: str) -> None:
    x, graph = torch.ones(4).npu(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
    graph.replay()
    if change == "freed":
        x.untyped_storage().resize_(0)
    else:
        x.resize_(100_000)
    with pytest.raises(RuntimeError, match=f"{change} after the capture"):
        graph.replay()
