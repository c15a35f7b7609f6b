"""npu tensors and events cross processes: memory is shared, not copied, as between processes of one device."""

from __future__ import annotations

import torch

SHARING = """
import graph_quant, torch
import torch.multiprocessing as mp


def child(view, parameter, wake, back):
    before = view.tolist()
    view.add_(1)
    assert parameter.requires_grad and type(parameter) is torch.nn.Parameter
    back.put((before, view.cpu()))
    wake.get()
    back.put(view.cpu() + parameter.detach().cpu())  # what the parent wrote after this process opened the memory
    own = torch.full((3,), 7.0, device="npu")
    back.put(own)
    wake.get()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    wake, back = context.Queue(), context.Queue()
    large = torch.arange(4_000_000.0).npu()  # an allocation of its own, in huge pages
    view, parameter = large[5:9], torch.nn.Parameter(torch.full((4,), 0.5).npu())
    alias, address = view.view(2, 2), large.data_ptr()
    process = context.Process(target=child, args=(view, parameter, wake, back))
    process.start()
    before, after = back.get(timeout=120)
    print(before, after.tolist(), alias.tolist(), large.data_ptr() == address)
    large.mul_(10)
    wake.put(None)
    print(back.get(timeout=120).tolist())
    own = back.get(timeout=120)
    print(own.device, (own + 1).tolist())
    wake.put(None)
    process.join(120)
    print(process.exitcode, own.tolist(), large[-1].item())
    del own
"""
GONE = """
import graph_quant, torch
import torch.multiprocessing as mp


def child(queue):
    queue.put(torch.ones(3).npu())


if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    process.join(120)
    queue.get(timeout=120)
"""


def test_a_spawned_process_shares_tensors(run_script) -> None:
    done = run_script(SHARING)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[5.0, 6.0, 7.0, 8.0] [6.0, 7.0, 8.0, 9.0] [[6.0, 7.0], [8.0, 9.0]] True",
        "[60.5, 70.5, 80.5, 90.5]",
        "npu:0 [8.0, 8.0, 8.0]",
        "0 [7.0, 7.0, 7.0] 39999992.0",
    ]


def test_memory_of_an_ended_process_is_refused(run_script) -> None:
    done = run_script(GONE)
    assert done.returncode == 1
    assert "which shared the memory, has ended or has freed it" in done.stderr, done.stderr


def test_an_event_of_another_process_is_complete() -> None:
    event = torch.npu.Event(interprocess=True)
    event.record()
    opened = torch.npu.Event.from_ipc_handle(torch.device("npu:0"), event.ipc_handle())
    opened.wait()
    assert opened.query()
