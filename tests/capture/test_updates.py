"""Updates of operators of a captured graph between replays, and the events that a replay waits for."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from torch import Tensor


class Scaled:
    """A graph with one operator that can be updated: it adds ``number`` times y, and waits for the update."""

    def __init__(self, waits: bool) -> None:
        self.x, self.y = torch.ones(3).npu(), torch.full((3,), 2.0).npu()
        self.out = torch.empty(3, device="npu")
        self.event = torch.npu.ExternalEvent() if waits else None
        self.graph = torch.npu.NPUGraph()
        self.stream = torch.npu.Stream()
        with torch.npu.graph(self.graph):
            stream = torch.npu.current_stream()
            before = self.x * 10
            if self.event is not None:
                self.event.wait(stream)
                self.event.reset(stream)
            torch.npu.graph_task_group_begin(stream)
            torch.add(before, self.y, alpha=1, out=self.out)
            self.handle = torch.npu.graph_task_group_end(stream)
            self.after = self.out + 1
        self.before = before

    def update(self, number: int) -> None:
        with torch.npu.stream(self.stream):
            torch.npu.graph_task_update_begin(self.stream, self.handle)
            torch.add(self.before, self.y, alpha=number, out=self.out)
            torch.npu.graph_task_update_end(self.stream)
            if self.event is not None:
                self.event.record(self.stream)


def test_update_changes_arguments_of_later_replays() -> None:
    scaled = Scaled(waits=False)
    results = []
    for number in (None, 3, 5):
        if number is not None:
            scaled.update(number)
        scaled.graph.replay()
        results.append(scaled.after.tolist())
    assert results == [[13.0] * 3, [17.0] * 3, [21.0] * 3]


@pytest.mark.parametrize("update_first", [True, False])
def test_replay_waits_for_its_update(update_first: bool) -> None:
    scaled = Scaled(waits=True)
    for number in (3, 5):
        steps = [lambda number=number: scaled.update(number), scaled.graph.replay]
        for step in steps if update_first else reversed(steps):
            step()
        assert scaled.after.tolist() == [11.0 + 2 * number] * 3


def test_waiting_stream_raises_instead_of_hanging() -> None:
    scaled = Scaled(waits=True)
    scaled.graph.replay()
    for use in (lambda: scaled.after + 1, torch.npu.current_stream().synchronize, scaled.graph.replay):
        with pytest.raises(RuntimeError, match="waits for an event that has not been recorded"):
            use()
    scaled.update(4)
    assert scaled.after.tolist() == [19.0] * 3


def test_stream_waits_for_an_external_event() -> None:
    x, event, other = torch.ones(3).npu(), torch.npu.ExternalEvent(), torch.npu.Stream()
    for _ in range(2):
        event.wait(torch.npu.current_stream())
        with pytest.raises(RuntimeError, match="waits for an event that has not been recorded"):
            _ = x + 1
        event.record(other)
        assert (x + 1).tolist() == [2.0, 2.0, 2.0]
    event.record(other)
    event.wait(torch.npu.current_stream())
    assert (x + 1).tolist() == [2.0, 2.0, 2.0]


def test_update_with_other_operators_is_refused() -> None:
    scaled = Scaled(waits=False)
    stream = scaled.stream

    def update(*calls) -> None:
        torch.npu.graph_task_update_begin(stream, scaled.handle)
        try:
            for call in calls:
                call(scaled.before, scaled.y, out=scaled.out)
        finally:
            torch.npu.graph_task_update_end(stream)

    with torch.npu.stream(stream):
        with pytest.raises(RuntimeError) as raised:
            update(torch.mul)
        assert "the operator captured here is aten::add.out" in f"{raised.value}{raised.value.__context__}"
        with pytest.raises(RuntimeError, match="has 1 operators, but 0 were updated"):
            update()
        with pytest.raises(RuntimeError, match="no more can be updated"):
            update(torch.add, torch.add)
    with pytest.raises(RuntimeError, match="the stream is not capturing"):
        torch.npu.graph_task_group_begin(stream)


def test_host_function_runs_in_every_replay(capfd) -> None:
    x = torch.ones(2).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch.ops.npu.print_npugraph_tensor(x + 1, tensor_name="y")
    assert "y=" not in capfd.readouterr().out
    for number in (1, 5):
        x.fill_(number)
        graph.replay()
        torch.npu.synchronize()
        assert f"y=tensor([{number + 1}., {number + 1}.])" in capfd.readouterr().out


@torch.no_grad
def test_documented_attention_update() -> None:
    query, key, value = (torch.randn(1, 4, 1, 16, dtype=torch.float16).npu() for _ in range(3))
    call = {"num_heads": 4, "input_layout": "BNSD", "scale": 0.25, "softmax_lse_flag": False}
    event, update_stream, graph = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(
            query, key, value, actual_seq_lengths=[29], **call
        )
        out = [torch.empty_like(query), torch.empty(1, dtype=torch.float16, device="npu")]
        event.wait(stream)
        event.reset(stream)
        torch.npu.graph_task_group_begin(stream)
        attention = torch_npu.npu_fused_infer_attention_score.out
        attention(query, key, value, workspace=workspace, actual_seq_lengths=[29], out=out, **call)
        handle = torch.npu.graph_task_group_end(stream)
    with torch.npu.stream(update_stream):
        torch.npu.graph_task_update_begin(update_stream, handle)
        attention(query, key, value, workspace=workspace, actual_seq_lengths=[100], out=out, **call)
        torch.npu.graph_task_update_end(update_stream)
        event.record(update_stream)
    graph.replay()
    expected = torch_npu.npu_fused_infer_attention_score(query, key, value, actual_seq_lengths=[100], **call)
    assert torch.equal(out[0], expected[0])


VERSIONS = {
    "npu_fused_infer_attention_score": ("num_heads", "scale", "actual_seq_lengths_kv"),
    "npu_fused_infer_attention_score_v2": ("num_query_heads", "softmax_scale", "actual_seq_kvlen"),
}


@pytest.mark.parametrize("name", list(VERSIONS))
@torch.no_grad
def test_attention_lengths_are_updated_before_replay(name: str) -> None:
    heads, scale, lengths = VERSIONS[name]
    attention, call = getattr(torch_npu, name), {heads: 4, scale: 0.25, "input_layout": "BNSD"}
    query, key, value = (torch.randn(1, 4, tokens, 16).half().npu() for tokens in (1, 8, 8))
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        result, _ = attention(query, key, value, **call, **{lengths: [8]})
    for length in (3, 8, 5):
        graph.update(cpu_update_input=[{lengths: [length]}])
        graph.replay()
        assert torch.equal(result, attention(query, key, value, **call, **{lengths: [length]})[0])


def test_core_limits_are_stored_and_returned() -> None:
    stream = torch.npu.Stream()
    whole = torch.npu.get_stream_limit(stream)
    torch.npu.set_stream_limit(stream, 4, 8)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 4, "vector_core_num": 8}
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == whole
    with pytest.raises(RuntimeError, match="the limit must be from 1 to 20 cores, got 21"):
        torch.npu.set_stream_limit(stream, 21, 8)


def test_tensor_swapped_to_host_memory_keeps_its_values() -> None:
    tensor: Tensor = torch_npu.empty_with_swapped_memory([4], dtype=torch.float32, device=torch.device("npu:0"))
    tensor.fill_(3)
    assert (tensor + 1).tolist() == [4.0] * 4
